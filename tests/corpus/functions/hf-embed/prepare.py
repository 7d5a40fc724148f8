import torch
from transformers import BertConfig, BertModel, BertTokenizerFast

words = [
    "[PAD]",
    "[UNK]",
    "[CLS]",
    "[SEP]",
    "[MASK]",
    "a",
    "man",
    "is",
    "eating",
    "food",
    "piece",
    "of",
    "bread",
    "the",
    "girl",
    "carrying",
    "baby",
    "##s",
    ".",
    "pasta",
]
with open("vocab.txt", "w") as file:
    file.write("\n".join(words))
BertTokenizerFast(vocab="vocab.txt").save_pretrained("encoder")
torch.manual_seed(14)
config = BertConfig(
    vocab_size=len(words),
    hidden_size=16,
    num_hidden_layers=2,
    num_attention_heads=2,
    intermediate_size=32,
    max_position_embeddings=32,
)
BertModel(config).save_pretrained("encoder")
