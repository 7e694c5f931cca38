// Three values for four elements.
// error: line 2, column 41: expected ',', got ']'
graph "g"
parameter w : f32[2, 2] = [1.0, 2.0, 3.0]
output()
