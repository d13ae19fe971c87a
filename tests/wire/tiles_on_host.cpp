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
    std::vector<State> states(THREADS);
    for (u32 t = 0; t < THREADS; ++t) {
        State s = begun(t, number, bytes);
        for (u64 i = t; 16 * i < size; i += THREADS) {
            u32 words[4] = {};
            memcpy(words, data + 16 * i, size - 16 * i < 16 ? size - 16 * i : 16);
            add(s, words[0], words[1], words[2], words[3]);
        }
        states[t] = s;
    }
    for (u32 half = THREADS / 2; half; half /= 2)
        for (u32 t = 0; t < half; ++t) join(states[t], states[t + half]);
    memcpy(out, states[0].v, sizeof states[0].v);
}
