// The arithmetic of tiles.cu on a host, a thread after another.
#include <cstdint>
#include <cstring>
#include <vector>

#define HOST
#define DEVICE static inline
typedef uint32_t u32;
typedef uint64_t u64;
#include "tiles.cu"

extern "C" void hash_tile(const unsigned char* data, u64 size, u32 number, u64 bytes, u32* out) {
    std::vector<Value> values(THREADS, begun(bytes));
    for (u32 t = 0; t < THREADS; ++t)
        for (u64 i = t; 16 * i < size; i += 4 * THREADS) {
            u32 words[16] = {};
            for (u64 k = 0, at = 16 * i; k < 4 && at < size; ++k, at += 16 * THREADS)
                memcpy(words + 4 * k, data + at, size - at < 16 ? size - at : 16);
            values[t] = compressed(values[t], words, number, t, KEYED);
        }
    for (u32 half = THREADS / 2; half; half /= 2)
        for (u32 t = 0; t < half; ++t) values[t] = joined(values[t], values[t + half], number, bytes);
    memcpy(out, values[0].v, 16);
}

extern "C" void compress(const u32* value, const u32* message, u32 low, u32 high, u32 flags, u32* out) {
    Value h;
    u32 m[16];
    memcpy(h.v, value, sizeof h.v);
    memcpy(m, message, sizeof m);
    h = compressed(h, m, low, high, flags);
    memcpy(out, h.v, sizeof h.v);
}
