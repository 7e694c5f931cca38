// Tied weights: three windows of one storage, one of them transposed.
graph "tied" imported
parameter a : f32[2, 2] shares 0+0 = [1.0, 2.0, 3.0, 4.0]
parameter b : f32[2, 2]{1, 2} shares 0+0 = [1.0, 3.0, 2.0, 4.0]
parameter c : f32[2] shares 0+2 = [3.0, 4.0]
parameter d : f32[300] hash 0x00000000deadbeef

%a : f32[2, 2] = get_attr[a]
%b : f32[2, 2]{1, 2} = get_attr[b]
%d : f32[300] = get_attr[d]
output((%a, %b, %d))
