// A node is used before it is defined: lists are in order, so there is no cycle to write.
// error: line 2, column 33: there is no node 'y' before this one
graph "g"
%x : f32[1] = call_method[neg](%y)
%y : f32[1] = call_method[neg](%x)
output(%y)
