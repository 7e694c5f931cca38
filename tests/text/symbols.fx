// Symbolic sizes with ranges, expressions in their canonical spelling.
graph "dynamic" imported
symbol s0 in [1, 64]
symbol s77 in [2, inf]
symbol u in [-inf, inf]

%x : f32[s0, 3*s77 + 1] = placeholder[x]
%a : f32[s0//2, (s77 + 3)%4, Max(s0, s77), CeilDiv(s0, 8)] = call_method[a](%x)
%b : f32[s77**2, 6*s0 - 4, s0*s77] = call_method[b](%a, sym(2*s77 - 1))
%n : int(2*s0) = call_function[aten.sym_size.int](%x, 0)
output((%b, %n)) : (f32[s77**2, 6*s0 - 4, s0*s77], int(2*s0))
