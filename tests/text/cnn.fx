// A small convolutional network as the importer gives it: normalised calls, tensors on the module tree.
// verify: imported
graph "cnn" imported file "cnn.pt2" entry "cnn/models/model.json"
module "" : cnn.Net
module conv : torch.nn.modules.conv.Conv2d
parameter conv.weight : f32[2, 1, 3, 3] = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, -0.1, -0.2, -0.3, -0.4, -0.5, -0.6, -0.7, -0.8, -0.9]
parameter conv.bias : f32[2] = [0.5, -0.5]
module fc : torch.nn.modules.linear.Linear
parameter fc.weight : f32[10, 32] = all 0.25
parameter fc.bias : f32[10] = [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0]
inputs ((0,), {})
outputs (0,)

%x : f32[1, 1, 8, 8] = placeholder[x]
%p_conv_weight : f32[2, 1, 3, 3] = get_attr[conv.weight]
%p_conv_bias : f32[2] = get_attr[conv.bias]
%p_fc_weight : f32[10, 32] = get_attr[fc.weight]
%p_fc_bias : f32[10] = get_attr[fc.bias]
%conv2d : f32[1, 2, 8, 8] = call_function[aten.conv2d.default](%x, %p_conv_weight, %p_conv_bias, [1, 1], [1, 1], [1, 1], 1)  # conv, cnn.py:12
%relu_ : f32[1, 2, 8, 8] = call_function[aten.relu_.default](%conv2d)  # -, cnn.py:13
%max_pool2d : f32[1, 2, 4, 4] = call_function[aten.max_pool2d.default](%relu_, [2, 2], [2, 2], [0, 0], [1, 1], False)  # pool, cnn.py:14
%flatten : f32[1, 32] = call_function[aten.flatten.using_ints](%max_pool2d, 1, -1)
%linear : f32[1, 10] = call_function[aten.linear.default](%flatten, %p_fc_weight, %p_fc_bias)  # fc, cnn.py:16
output((%linear,))
