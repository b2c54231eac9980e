// What the traces of accesses in this folder are of: counters at random in a small table, and a scan of a larger one.
// cc -O1 -static -nostdlib -fno-stack-protector -o table table.c
static unsigned counters[1024], scanned[4096];

static void count(void) {
    unsigned random = 1;
    for (int round = 0; round < 1500; round++) {
        random ^= random << 13, random ^= random >> 17, random ^= random << 5;
        counters[random % 1024 & random >> 12]++;
        scanned[0] += scanned[round * 16 % 4096];
    }
}

void _start(void) {
    count();
    __asm__ volatile("syscall" : : "a"(60), "D"(0) : "rcx", "r11", "memory");
}
