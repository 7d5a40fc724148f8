"""Word count: text in, its most frequent words out. No model, no GPU flag: an ordinary function."""

import re
from collections import Counter


def handle(event, context):
    words = Counter(re.findall(r"[a-z']+", event.body.decode().lower()))
    return {"statusCode": 200, "body": {"words": sum(words.values()), "top": words.most_common(3)}}
