#include <torch/extension.h>

__global__ void scale(float* x, float by, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] *= by;
}

torch::Tensor scaled(torch::Tensor x, double by) {
    auto y = x.clone();
    scale<<<(y.numel() + 255) / 256, 256>>>(y.data_ptr<float>(), by, y.numel());
    return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("scaled", &scaled); }
