// Kernels that hold time still while the host queues work.
//
// gate: one thread waits until *flag becomes non-zero, so that everything queued behind it on its
//       stream starts together with everything queued behind the gates of other streams.
//       Launch <<<1, 1>>>. Reads flag; writes the time it opened (ns of the global timer) to *opened;
//       adds 1 to *expired when the time limit opened it instead of the flag.
// hold: every thread waits for `ns` nanoseconds of the global timer. Launched so that nothing else
//       fits beside it, it answers the question "does this copy need an SM?".
//
// Both end by the clock alone whatever the host does: no program of ours can hang a card.

static __device__ __forceinline__ unsigned long long nanoseconds() {
    unsigned long long t;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(t));
    return t;
}

extern "C" __global__ void gate(const volatile unsigned int* flag, unsigned long long limit_ns,
                                unsigned int* expired, unsigned long long* opened) {
    const unsigned long long start = nanoseconds();
    while (*flag == 0u) {
        if (nanoseconds() - start > limit_ns) {
            atomicAdd(expired, 1u);
            break;
        }
    }
    *opened = nanoseconds();
}

extern "C" __global__ void __launch_bounds__(1024) hold(unsigned long long ns) {
    const unsigned long long start = nanoseconds();
    while (nanoseconds() - start < ns) {
    }
}
