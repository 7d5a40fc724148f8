import torch
from transformers import GPT2Config, GPT2LMHeadModel

torch.manual_seed(86)
config = GPT2Config(vocab_size=20, n_positions=64, n_embd=16, n_layer=2, n_head=2, bos_token_id=0, eos_token_id=0)
GPT2LMHeadModel(config).save_pretrained("lm")
