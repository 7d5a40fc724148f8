import keras
from keras import layers, ops


class TwoTower(keras.Model):
    def __init__(self, width, **kwargs):
        super().__init__(**kwargs)
        self.user = layers.Dense(width, activation="tanh")
        self.item = layers.Dense(width, activation="tanh")
        self.drop = layers.Dropout(0.5)

    def call(self, inputs, training=False):
        u = self.drop(self.user(inputs["user"]), training=training)
        return ops.sum(u * self.item(inputs["item"]), axis=-1, keepdims=True)
