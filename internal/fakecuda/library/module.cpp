// What a driver reads of a module: its kernels, their parameters and how many threads and registers they have, from PTX or from machine
// code (ELF, whose .nv.info sections are as cuobjdump shows them). It is part of driver.cpp.

namespace {

// Entry is a kernel as a module declares it.
struct Entry {
    std::vector<size_t> sizes;  // of the parameters, in bytes
    unsigned threads = 1024;    // of a block, at most: .maxntid
    unsigned registers = 0;     // of a thread; 0 where only a compiler would know
};
using Entries = std::map<std::string, Entry>;

// read_ptx finds the entries of a PTX.
Entries read_ptx(const std::string& ptx) {
    Entries all;
    const std::string word = ".entry ";
    for (size_t at = ptx.find(word); at != std::string::npos; at = ptx.find(word, at)) {
        at += word.size();
        size_t open = ptx.find('(', at), close = ptx.find(')', at), body = ptx.find('{', at);
        if (open == std::string::npos || close == std::string::npos || body == std::string::npos) break;
        Entry& e = all[ptx.substr(at, open - at)];
        for (size_t p = open; (p = ptx.find(".param .", p)) < close; p++) {
            size_t bits = p + strlen(".param .") + 1;  // after u, s, f or b
            e.sizes.push_back(size_t(atoi(ptx.c_str() + bits)) / 8);
        }
        size_t most = ptx.find(".maxntid ", close);
        if (most < body) {
            unsigned x = 1, y = 1, z = 1;
            sscanf(ptx.c_str() + most, ".maxntid %u, %u, %u", &x, &y, &z);
            e.threads = x * y * z;
        }
        at = body;
    }
    return all;
}

struct Elf { unsigned char ident[16]; uint16_t type, machine; uint32_t version; uint64_t entry, phoff, shoff; uint32_t flags; uint16_t size, phsize, phs, shsize, sections, names; };
struct Section { uint32_t name, type; uint64_t flags, address, offset, size; uint32_t link, info; uint64_t align, each; };
struct Symbol { uint32_t name; unsigned char info, other; uint16_t section; uint64_t value, size; };

bool is_elf(const char* image) { return !memcmp(image, "\177ELF", 4); }

// compiled_for is the compute capability that machine code is for, such as 90.
int compiled_for(const char* image) { return int(reinterpret_cast<const Elf*>(image)->flags & 0xff); }

// attributes calls f(attribute, value, bytes) for each of a section .nv.info.
template <class F> void attributes(const char* at, size_t bytes, F f) {
    for (const char* end = at + bytes; at + 4 <= end;) {
        uint16_t size;
        memcpy(&size, at + 2, 2);
        const bool long_form = at[0] == 4;
        f(static_cast<unsigned char>(at[1]), at + 4, long_form ? size : 0);
        at += 4 + (long_form ? size : 0);
    }
}

// read_elf finds the kernels of machine code.
Entries read_elf(const char* image) {
    enum { max_threads = 0x05, param_info = 0x17, register_count = 0x2f };
    const Elf& elf = *reinterpret_cast<const Elf*>(image);
    const Section* sections = reinterpret_cast<const Section*>(image + elf.shoff);
    const char* names = image + sections[elf.names].offset;
    const Symbol* symbols = nullptr;
    const char* symbol_names = nullptr;
    for (int i = 0; i < elf.sections; i++)
        if (sections[i].type == 2) {
            symbols = reinterpret_cast<const Symbol*>(image + sections[i].offset);
            symbol_names = image + sections[sections[i].link].offset;
        }
    Entries all;
    const std::string prefix = ".nv.info.";
    for (int i = 0; i < elf.sections; i++) {
        std::string name = names + sections[i].name;
        if (name.compare(0, prefix.size(), prefix)) continue;
        Entry& e = all[name.substr(prefix.size())];
        std::map<unsigned, size_t> sizes;  // by ordinal
        attributes(image + sections[i].offset, sections[i].size, [&](int attribute, const char* value, size_t) {
            uint32_t word[3];
            memcpy(word, value, sizeof word);
            if (attribute == max_threads) e.threads = word[0] * word[1] * word[2];
            if (attribute == param_info) sizes[word[1] & 0xffff] = word[2] >> 18;
        });
        for (auto& s : sizes) e.sizes.push_back(s.second);
    }
    for (int i = 0; i < elf.sections; i++) {
        if (strcmp(names + sections[i].name, ".nv.info")) continue;
        attributes(image + sections[i].offset, sections[i].size, [&](int attribute, const char* value, size_t) {
            if (attribute != register_count) return;
            uint32_t word[2];
            memcpy(word, value, sizeof word);
            auto at = all.find(symbol_names + symbols[word[0]].name);
            if (at != all.end()) at->second.registers = word[1];
        });
    }
    return all;
}

}  // namespace
