// What tiles.cu and masks.cu do, on a host, a thread after another.
#include <cstdint>
#include <cstring>
#include <vector>

#define HOST
#define DEVICE static inline
typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;
struct uint4 {
    u32 x, y, z, w;
};
#include "tiles.cu"
#include "masks.cu"

extern "C" void hash_tile(const u8* data, u64 size, u32 unit, u32 number, u64 bytes, u32* out) {
    std::vector<Value> values;
    for (u32 t = 0; t < THREADS; ++t) values.push_back(taken(data, size, unit, t, number, bytes));
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

extern "C" void stream(u64 key, u32 number, u64 at, u32* out) {
    u32 v[16];
    streamed(key, number, at, v);
    memcpy(out, v, sizeof v);
}
