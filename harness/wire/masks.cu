// Masks on tensors, the wait for the key that takes them off, and the way back. Compiled by nvrtc behind tiles.cu;
// mask.py and device_page.py say how they are used.
//
//     stream    64 bytes a thread: all 16 words that BLAKE3's compression leaves, whose message is the key and the number
//               of the tensor, and whose counter says which 64 bytes they are
//     mask      bytes XOR stream; of a block's 8 KiB, thread t takes the words t, t + THREADS, ... of 16 bytes
//
// All words of a compression make a stream of any length, as BLAKE3's own output does: O'Connor et al., 2020, section 2.6.
DEVICE void streamed(u64 key, u32 number, u64 at, u32 (&v)[16]) {
    const u32 m[16] = {(u32)key, (u32)(key >> 32), number};
    const u32 begun[16] = {0x6a09e667u, 0xbb67ae85u, 0x3c6ef372u, 0xa54ff53au, 0x510e527fu, 0x9b05688cu,
                           0x1f83d9abu, 0x5be0cd19u, 0x6a09e667u, 0xbb67ae85u, 0x3c6ef372u, 0xa54ff53au,
                           (u32)at,     (u32)(at >> 32), MESSAGE_BYTES, KEYED};
#pragma unroll
    for (int i = 0; i < 16; ++i) v[i] = begun[i];
    rounds(v, m);
#pragma unroll
    for (int i = 0; i < 8; ++i) {
        v[i] ^= v[i + 8];
        v[i + 8] ^= begun[i];
    }
}

#ifndef HOST
// Puts the mask of the key that lies at `key` on `bytes` bytes at `data`, or takes it off: the tensor's number is `number`.
extern "C" __global__ void __launch_bounds__(THREADS) mask_bytes(u8* data, u64 bytes, u32 number, const u64* key) {
    u32 s[16];
    streamed(*key, number, (u64)blockIdx.x * THREADS + threadIdx.x, s);
    const bool aligned = (u64)data % 16 == 0;
#pragma unroll
    for (int k = 0; k < 4; ++k) {
        const u64 at = ((u64)blockIdx.x * 4 + k) * 16 * THREADS + 16 * threadIdx.x;
        if (aligned && at + 16 <= bytes) {
            uint4 w = *(uint4*)(data + at);
            w.x ^= s[4 * k], w.y ^= s[4 * k + 1], w.z ^= s[4 * k + 2], w.w ^= s[4 * k + 3];
            *(uint4*)(data + at) = w;
        } else {
#pragma unroll
            for (int i = 0; i < 16; ++i)
                if (at + i < bytes) data[at + i] ^= (u8)(s[4 * k + i / 4] >> 8 * (i % 4));
        }
    }
}

// One thread, which ends when `released` has the ticket, and hands on the key that was written before it. Where nobody
// writes one it ends after `limit_ns`, so that no device waits for ever.
extern "C" __global__ void await_key(const volatile u64* released, const volatile u64* page_key, u64 ticket, u64 limit_ns,
                                     u64* key) {
    u64 began, now;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(began));
    do {
        asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
    } while (*released != ticket && now - began < limit_ns);
    __threadfence_system();
    *key = *page_key;
}

// One thread, which writes 16 bytes where another process sees them.
extern "C" __global__ void publish(const uint4* from, uint4* to) {
    *to = *from;
    __threadfence_system();
}
#endif
