import builtins

builtins.customized = "by the image"
