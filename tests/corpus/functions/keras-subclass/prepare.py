import os

os.environ["KERAS_BACKEND"] = "torch"
import keras
from network import TwoTower

keras.utils.set_random_seed(88)
model = TwoTower(4)
model({"user": keras.ops.zeros((1, 3)), "item": keras.ops.zeros((1, 2))})
model.save_weights("towers.weights.h5")
