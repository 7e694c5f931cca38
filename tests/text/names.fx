// Names that are no words: quotes, newlines, comment signs, C keywords, other alphabets, control characters.
graph "a/b */ \"q\"" imported
buffer "\001" : i64[] = [-3]
buffer int : bool[1] = [True]
module "é" : "class with space"
parameter "é.weight\n" : f32[1] = [1.0]

%while_ : f32[1] = placeholder["*/ #include \"x\""]
%int : bool[1] = get_attr[int]
%_ : f32[1] = call_function["torch.ops.\\evil\\"](%while_, "日本", "\t")  # "a, b", # x
%sym : f32[Symbol("a b"), Opaque("f(\"x\")")] = call_method[f](%_)
output(%sym)
