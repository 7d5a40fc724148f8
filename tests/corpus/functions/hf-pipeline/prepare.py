import torch
from transformers import BertConfig, BertForSequenceClassification, BertTokenizerFast

words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "refund", "my", "order", "where", "is", "it", "please", "?"]
with open("vocab.txt", "w") as file:
    file.write("\n".join(words))
BertTokenizerFast(vocab="vocab.txt").save_pretrained("intent")
torch.manual_seed(18)
config = BertConfig(
    vocab_size=len(words),
    hidden_size=16,
    num_hidden_layers=1,
    num_attention_heads=2,
    intermediate_size=32,
    max_position_embeddings=32,
    num_labels=3,
)
BertForSequenceClassification(config).save_pretrained("intent")
