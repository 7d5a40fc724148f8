import torch
from transformers import BertConfig, BertForSequenceClassification, BertTokenizerFast

words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "i", "love", "hate", "this", "film", "so", "much", "!"]
with open("vocab.txt", "w") as file:
    file.write("\n".join(words))
BertTokenizerFast(vocab="vocab.txt").save_pretrained("checkpoint")
torch.manual_seed(15)
config = BertConfig(
    vocab_size=len(words),
    hidden_size=16,
    num_hidden_layers=1,
    num_attention_heads=2,
    intermediate_size=32,
    max_position_embeddings=32,
    num_labels=2,
    id2label={0: "NEGATIVE", 1: "POSITIVE"},
    label2id={"NEGATIVE": 0, "POSITIVE": 1},
)
BertForSequenceClassification(config).save_pretrained("checkpoint")
