/* libnvrtc.so.13 for a machine without a GPU: what it is given is compiled by $CXX (g++) for the host's CUDA into a shared library, which driver.cpp loads.
 * Beside this library lie libcuda.so.1 and, by $FXCU_INCLUDE, the headers. Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>
#include <vector>

struct program {
    std::string text, log, image;
    std::vector<std::string> kernels, names;
};

static std::string read_file(const std::string &path) {
    std::string all;
    char piece[1 << 16];
    FILE *file = fopen(path.c_str(), "rb");
    for (size_t n; file && (n = fread(piece, 1, sizeof piece, file)) > 0;) {
        all.append(piece, n);
    }
    if (file) {
        fclose(file);
    }
    return all;
}

/* For each kernel a function that launches it with arguments as cuLaunchKernel has them. */
static const char head[] = R"(
namespace {
template <class... P, size_t... I>
int fxcu_launch(void (*kernel)(P...), const char *name, dim3 grid, dim3 block, size_t shared, cudaStream_t stream, void **a, std::index_sequence<I...>)
{
    (void)a;
    return fxcu::bind(kernel, name, "model.cu", 0, grid, block, shared, stream)(*static_cast<std::remove_cv_t<P> *>(a[I])...);
}
template <class... P>
int fxcu_start(void (*kernel)(P...), const char *name, dim3 grid, dim3 block, size_t shared, cudaStream_t stream, void **a)
{
    return fxcu_launch(kernel, name, grid, block, shared, stream, a, std::index_sequence_for<P...>());
}
}
)";

static std::string here() {
    Dl_info info;
    const std::string path = dladdr(reinterpret_cast<void *>(&read_file), &info) ? info.dli_fname : "";
    return path.substr(0, path.rfind('/'));
}

extern "C" {
int nvrtcVersion(int *major, int *minor) {
    *major = 13;
    *minor = 0;
    return 0;
}
int nvrtcGetNumSupportedArchs(int *n) {
    *n = 3;
    return 0;
}
int nvrtcGetSupportedArchs(int *archs) {
    const int all[] = {75, 90, 120};
    memcpy(archs, all, sizeof all);
    return 0;
}
int nvrtcCreateProgram(program **p, const char *text, const char *, int, const char *const *, const char *const *) {
    *p = new program{text, "", "", {}, {}};
    return 0;
}
int nvrtcDestroyProgram(program **p) {
    delete *p;
    *p = nullptr;
    return 0;
}
int nvrtcAddNameExpression(program *p, const char *expression) {
    p->kernels.push_back(expression);
    p->names.push_back("fxcu_kernel_" + std::to_string(p->names.size()));
    return 0;
}
int nvrtcCompileProgram(program *p, int, const char *const *) {
    char folder[] = "/tmp/fxcu-nvrtc-XXXXXX";
    const char *compiler = getenv("CXX"), *include = getenv("FXCU_INCLUDE");
    if (!mkdtemp(folder) || !include) {
        p->log = "no folder to compile in, or no $FXCU_INCLUDE";
        return 1;
    }
    const std::string base = folder, source = base + "/model.cu";
    FILE *file = fopen(source.c_str(), "w");
    if (!file) {
        return 1;
    }
    fputs(p->text.c_str(), file);
    fputs(head, file);
    for (size_t i = 0; i < p->kernels.size(); i++) {
        fprintf(file, "extern \"C\" int %s(dim3 g, dim3 b, size_t s, cudaStream_t t, void **a) { return fxcu_start(&%s, \"%s\", g, b, s, t, a); }\n",
                p->names[i].c_str(), p->kernels[i].c_str(), p->kernels[i].c_str());
    }
    fclose(file);
    const std::string command = std::string(compiler && *compiler ? compiler : "g++") + " -x c++ -std=c++17 -O1 -g1 -w -fPIC -shared -ffp-contract=off " +
                                "-D__CUDACC_RTC__ -I'" + include + "' -include cuda_runtime.h -include math.h -include stdint.h -include utility '" + source +
                                "' -x none '" + here() + "/libcuda.so.1' -o '" + base + "/model.so' 2>'" + base + "/log'";
    const int status = system(command.c_str());
    p->log = read_file(base + "/log");
    p->image = read_file(base + "/model.so");
    for (const char *name : {"/model.cu", "/model.so", "/log"}) {
        unlink((base + name).c_str());
    }
    rmdir(folder);
    return status == 0 ? 0 : 6; /* NVRTC_ERROR_COMPILATION */
}
int nvrtcGetLoweredName(program *p, const char *expression, const char **name) {
    for (size_t i = 0; i < p->kernels.size(); i++) {
        if (p->kernels[i] == expression) {
            *name = p->names[i].c_str();
            return 0;
        }
    }
    return 1;
}
int nvrtcGetProgramLogSize(program *p, size_t *size) {
    *size = p->log.size() + 1;
    return 0;
}
int nvrtcGetProgramLog(program *p, char *log) {
    memcpy(log, p->log.c_str(), p->log.size() + 1);
    return 0;
}
int nvrtcGetCUBINSize(program *p, size_t *size) {
    *size = p->image.size();
    return 0;
}
int nvrtcGetCUBIN(program *p, char *image) {
    memcpy(image, p->image.data(), p->image.size());
    return 0;
}
int nvrtcGetPTXSize(program *p, size_t *size) { return nvrtcGetCUBINSize(p, size); }
int nvrtcGetPTX(program *p, char *image) { return nvrtcGetCUBIN(p, image); }
}
