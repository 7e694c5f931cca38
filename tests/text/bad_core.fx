// Core form holds only core rows.
// verify: core
// error: after test: aten.square.default is no core op
graph "g" core

%x : f32[4] = placeholder[x]
%square : f32[4] = call_function[aten.square.default](%x)
output((%square,))
