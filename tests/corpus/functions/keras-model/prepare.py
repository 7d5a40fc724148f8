import os

os.environ["KERAS_BACKEND"] = "torch"
import keras

keras.utils.set_random_seed(20)
model = keras.Sequential(
    [
        keras.Input((8, 8, 1)),
        keras.layers.Conv2D(4, 3, activation="relu"),
        keras.layers.GlobalAveragePooling2D(),
        keras.layers.Dense(2, activation="softmax"),
    ]
)
model.save("cnn.keras")
