/* Static shared memory: which variables a kernel has, by the program's own symbols. A local variable's name holds its function's
 * (_ZZ6reducePfE4tile is tile of reduce(float *)), and its kind says that __shared__ was before it (include/cuda_host/types.h).
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include "internal.h"

#include <algorithm>
#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <map>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

extern "C" void *__tls_get_addr(void *); /* the dynamic linker's: makes a thread's block if it has not used it yet */

namespace fxcu {

struct variable {
    uintptr_t offset;
    size_t bytes;
    std::string symbol;
    bool thread_local_, of_kernel;
};
struct module {
    char *base, *thread_base; /* thread_base: of the thread that asked last */
    pthread_t thread;
    uint64_t moves; /* how often thread_base has changed */
    std::vector<variable> variables, guards; /* guards: gcc's own marks that a variable of class type has been made */
    std::map<uintptr_t, std::string> functions; /* by offset */
    char *at(const variable &v) const { return (v.thread_local_ ? thread_base : base) + v.offset; }
};
struct kernel_shared {
    module *in;
    std::vector<const variable *> used;
    size_t bytes;
};

static std::map<void *, module> modules;
static std::map<const void *, kernel_shared> kernels;

static int find_thread_base(struct dl_phdr_info *info, size_t, void *user) {
    module *m = static_cast<module *>(user);
    if (reinterpret_cast<char *>(info->dlpi_addr) != m->base) {
        return 0;
    }
    struct {
        unsigned long module, offset;
    } index = {info->dlpi_tls_modid, 0};
    m->thread_base = info->dlpi_tls_modid ? static_cast<char *>(__tls_get_addr(&index)) : nullptr;
    return 1;
}

static void read_symbols(module *m, const char *file) {
    int fd = open(file, O_RDONLY | O_CLOEXEC);
    struct stat status;
    if (fd < 0 || fstat(fd, &status) != 0) {
        return;
    }
    const size_t size = static_cast<size_t>(status.st_size);
    void *map = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd, 0);
    close(fd);
    if (map == MAP_FAILED) {
        return;
    }
    const char *bytes = static_cast<const char *>(map);
    const ElfW(Ehdr) *header = static_cast<const ElfW(Ehdr) *>(map);
    const ElfW(Shdr) *sections = reinterpret_cast<const ElfW(Shdr) *>(bytes + header->e_shoff);
    const char *section_names = bytes + sections[header->e_shstrndx].sh_offset;
    for (int i = 0; i < header->e_shnum; i++) {
        if (sections[i].sh_type != SHT_SYMTAB) {
            continue;
        }
        const ElfW(Sym) *symbols = reinterpret_cast<const ElfW(Sym) *>(bytes + sections[i].sh_offset);
        const char *names = bytes + sections[sections[i].sh_link].sh_offset;
        for (size_t k = 0; k < sections[i].sh_size / sizeof *symbols; k++) {
            const ElfW(Sym) &s = symbols[k];
            const char *name = names + s.st_name;
            const int type = ELF64_ST_TYPE(s.st_info);
            if (type == STT_FUNC && s.st_shndx != SHN_UNDEF) {
                m->functions.emplace(s.st_value, name);
            } else if (strncmp(name, "_ZGVZ", 5) == 0 && type == STT_TLS) {
                m->guards.push_back({s.st_value, s.st_size, name, true, false});
            } else if (strncmp(name, "_ZZ", 3) == 0 && s.st_shndx < header->e_shnum &&
                       (type == STT_TLS || (type == STT_OBJECT && strcmp(section_names + sections[s.st_shndx].sh_name, ".fxcu_shared") == 0))) {
                m->variables.push_back({s.st_value, s.st_size, name, type == STT_TLS, false});
            }
        }
    }
    munmap(map, size);
}

static module *module_of(const void *code) {
    Dl_info info;
    if (!dladdr(code, &info)) {
        return nullptr;
    }
    auto made = modules.emplace(info.dli_fbase, module());
    module *m = &made.first->second;
    static const void *main_base;
    if (made.second) {
        m->base = static_cast<char *>(info.dli_fbase);
        if (main_base == nullptr) {
            dl_iterate_phdr(
                [](struct dl_phdr_info *first, size_t, void *) {
                    main_base = reinterpret_cast<const void *>(first->dlpi_addr);
                    return 1;
                },
                nullptr);
        }
        read_symbols(m, m->base == main_base ? "/proc/self/exe" : info.dli_fname);
#ifdef FXCU_ASAN
        for (variable &v : m->variables) { /* its symbol's size has the fence after it */
            if (!v.thread_local_) {
                char *end = static_cast<char *>(__asan_region_is_poisoned(m->base + v.offset, v.bytes));
                v.bytes = end ? static_cast<size_t>(end - m->at(v)) : v.bytes;
            }
        }
#endif
    }
    if (m->thread_base == nullptr || !pthread_equal(m->thread, pthread_self())) {
        m->thread = pthread_self();
        m->moves++;
        dl_iterate_phdr(find_thread_base, m);
    }
    return m;
}

std::string symbol_of(const void *kernel) {
    const module *m = module_of(kernel);
    if (m == nullptr) {
        return "?";
    }
    auto function = m->functions.find(reinterpret_cast<uintptr_t>(kernel) - reinterpret_cast<uintptr_t>(m->base));
    return function == m->functions.end() ? "?" : function->second;
}

kernel_shared *shared_of(const void *kernel) {
    module *m = module_of(kernel);
    auto made = kernels.emplace(kernel, kernel_shared{m, {}, 0});
    kernel_shared *k = &made.first->second;
    if (!made.second || m == nullptr) {
        return k;
    }
    auto function = m->functions.find(reinterpret_cast<uintptr_t>(kernel) - reinterpret_cast<uintptr_t>(m->base));
    if (function == m->functions.end()) {
        return k;
    }
    const std::string &name = function->second;
    const std::string mine = "_ZZ" + (name.compare(0, 2, "_Z") == 0 ? name.substr(2) : std::to_string(name.size()) + name) + "E";
    for (variable &v : m->variables) {
        if (v.symbol.compare(0, mine.size(), mine) == 0) {
            v.of_kernel = true;
            k->used.push_back(&v);
            k->bytes += v.bytes;
        }
    }
    return k;
}

/* "tile" of _ZZ6reducePfE4tile: the name that its length stands before, after the last E that fits. */
static const char *plain_name(const std::string &symbol) {
    for (size_t at = symbol.rfind('E'); at != std::string::npos && at > 0; at = symbol.rfind('E', at - 1)) {
        size_t digits = at + 1, length = 0;
        while (digits < symbol.size() && symbol[digits] >= '0' && symbol[digits] <= '9') {
            length = length * 10 + static_cast<size_t>(symbol[digits++] - '0');
        }
        if (length > 0 && digits + length <= symbol.size()) {
            static std::map<std::string, std::string> names;
            return names.emplace(symbol, symbol.substr(digits, length)).first->second.c_str();
        }
    }
    return symbol.c_str();
}

void each_shared(const kernel_shared *k, void (*f)(char *at, size_t bytes, const char *name)) {
    for (const variable *v : k->used) {
        f(k->in->at(*v), v->bytes, plain_name(v->symbol));
    }
    for (size_t i = 0; k->in && i < k->in->variables.size(); i++) {
        const variable &v = k->in->variables[i];
        if (!v.of_kernel && std::find(k->used.begin(), k->used.end(), &v) == k->used.end()) {
            f(k->in->at(v), v.bytes, plain_name(v.symbol));
        }
    }
}

bool is_guard(const kernel_shared *k, const char *at) {
    return k->in && std::any_of(k->in->guards.begin(), k->in->guards.end(),
                                [&](const variable &v) { return at >= k->in->at(v) && at < k->in->at(v) + v.bytes; });
}

size_t shared_bytes(const kernel_shared *k) { return k->bytes; }
uint64_t shared_moves(const kernel_shared *k) { return k->in ? k->in->moves : 0; }

/* A plain loop: AddressSanitizer's own memset would look at what is around. */
__attribute__((no_sanitize_address)) static void fill(char *at, size_t bytes) {
    for (size_t i = 0; i < bytes; i++) {
        at[i] = static_cast<char>(0xff);
    }
}

void poison_shared(kernel_shared *k, bool all) {
    if (k->in && all) {
        for (const variable &v : k->in->variables) {
            if (!v.of_kernel) {
                fill(k->in->at(v), v.bytes);
            }
        }
    }
    for (const variable *v : k->used) {
        fill(k->in->at(*v), v->bytes);
    }
}

void find_used_shared(kernel_shared *k) {
    if (k->in == nullptr) {
        return;
    }
    for (const variable &v : k->in->variables) {
        const char *at = k->in->at(v);
        for (size_t i = 0; !v.of_kernel && i < v.bytes; i++) {
            if (static_cast<unsigned char>(at[i]) != 0xff) {
                if (std::find(k->used.begin(), k->used.end(), &v) == k->used.end()) {
                    k->used.push_back(&v);
                    k->bytes += v.bytes;
                }
                break;
            }
        }
    }
}

} // namespace fxcu
