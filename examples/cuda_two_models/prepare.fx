graph "prepare" imported
module "" : Prepare
parameter scale : f32[8] = [0.0625, 0.0625, 0.0625, 0.0625, 0.0625, 0.0625, 0.0625, 0.0625]

%pixels : u8[1, 8, 8] = placeholder[pixels]
%scale : f32[8] = get_attr[scale]
%picture : u8[1, 1, 8, 8] = call_function[aten.unsqueeze.default](%pixels, 1)
%float : f32[1, 1, 8, 8] = call_function[aten._to_copy.default](%picture, dtype=torch.float32)
%scaled : f32[1, 1, 8, 8] = call_function[aten.mul.Tensor](%float, %scale)
output((%scaled))
