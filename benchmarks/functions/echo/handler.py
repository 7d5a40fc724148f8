"""A CPU handler that does nothing but answer."""


def handle(event, context):
    return {"statusCode": 200, "body": "ok"}
