// What the CUDA runtime says of each GPU, one "label: value" a line.
//
// The labels up to "Max dimension size of a grid size Z" are those that scripts of CM read; what
// follows is ours. Everything that a release of CUDA has moved is asked for as an attribute: the
// clock rates left cudaDeviceProp with CUDA 13. Compiles with CUDA 11.4 to 13.
//
// Exit status: 0, or 1 with "error: CODE NAME: words" on stderr; CODE is that of cudaError_t.

#include <cuda_runtime_api.h>

#include <cstdio>
#include <cstring>
#include <string>

namespace {

struct Failure {
  cudaError_t code;
};

void check(cudaError_t code) {
  if (code != cudaSuccess) throw Failure{code};
}

int attribute(cudaDeviceAttr name, int device) {
  int value = 0;
  check(cudaDeviceGetAttribute(&value, name, device));
  return value;
}

// 12040 is 12.4.
std::string version(int number) {
  return std::to_string(number / 1000) + "." + std::to_string(number % 1000 / 10);
}

// Instances of a GPU that is cut in parts show themselves by their name.
std::string uuid(const cudaDeviceProp& of) {
  std::string text = std::strstr(of.name, " MIG ") ? "MIG" : "GPU";
  for (int place = 0; place < 16; ++place) {
    char digits[4];
    const bool dash = place == 0 || place == 4 || place == 6 || place == 8 || place == 10;
    std::snprintf(digits, sizeof digits, "%s%02x", dash ? "-" : "",
                  static_cast<unsigned>(static_cast<unsigned char>(of.uuid.bytes[place])));
    text += digits;
  }
  return text;
}

void say(const char* label, long long value) { std::printf("%s: %lld\n", label, value); }

void show(int device, int driver, int runtime) {
  cudaDeviceProp of;
  check(cudaGetDeviceProperties(&of, device));
  char bus[32] = "";
  check(cudaDeviceGetPCIBusId(bus, sizeof bus, device));
  const char* axes = "XYZ";

  say("GPU Device ID", device);
  std::printf("GPU Name: %s\n", of.name);
  std::printf("GPU compute capability: %d.%d\n", of.major, of.minor);
  std::printf("CUDA driver version: %s\n", version(driver).c_str());
  std::printf("CUDA runtime version: %s\n", version(runtime).c_str());
  say("Global memory", static_cast<long long>(of.totalGlobalMem));
  std::printf("Max clock rate: %f MHz\n", attribute(cudaDevAttrClockRate, device) / 1000.0);
  say("Total amount of shared memory per block", static_cast<long long>(of.sharedMemPerBlock));
  say("Total number of registers available per block", of.regsPerBlock);
  say("Warp size", of.warpSize);
  // The two blanks are part of the line that scripts know.
  std::printf("Maximum number of threads per multiprocessor:  %d\n",
              of.maxThreadsPerMultiProcessor);
  say("Maximum number of threads per block", of.maxThreadsPerBlock);
  for (int axis = 0; axis < 3; ++axis)
    std::printf("Max dimension size of a thread block %c: %d\n", axes[axis],
                of.maxThreadsDim[axis]);
  for (int axis = 0; axis < 3; ++axis)
    std::printf("Max dimension size of a grid size %c: %d\n", axes[axis], of.maxGridSize[axis]);

  std::printf("GPU UUID: %s\n", uuid(of).c_str());
  std::printf("PCI bus ID: %s\n", bus);
  say("Number of multiprocessors", of.multiProcessorCount);
  std::printf("ECC: %s\n", attribute(cudaDevAttrEccEnabled, device) ? "on" : "off");
  std::printf("\n");
}

}  // namespace

int main() {
  try {
    int driver = 0, runtime = 0, count = 0;
    // Both work without a driver, whose version is 0 then.
    check(cudaRuntimeGetVersion(&runtime));
    check(cudaDriverGetVersion(&driver));
    std::fprintf(stderr, "versions: driver %s runtime %s\n", version(driver).c_str(),
                 version(runtime).c_str());
    check(cudaGetDeviceCount(&count));
    for (int device = 0; device < count; ++device) show(device, driver, runtime);
    return 0;
  } catch (const Failure& failure) {
    std::fprintf(stderr, "error: %d %s: %s\n", static_cast<int>(failure.code),
                 cudaGetErrorName(failure.code), cudaGetErrorString(failure.code));
    return 1;
  }
}
