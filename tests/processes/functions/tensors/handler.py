import tensorflow


def handle(event, context):
    return {"statusCode": 200, "body": tensorflow.__version__}
