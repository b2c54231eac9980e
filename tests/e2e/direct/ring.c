/* Files on the folder that is named, by this program's calls and, between them, by requests of an io_uring. */
#include <fcntl.h>
#include <liburing.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int done(struct io_uring *ring) {
    struct io_uring_cqe *answer;
    io_uring_submit(ring);
    io_uring_wait_cqe(ring, &answer);
    int result = answer->res;
    io_uring_cqe_seen(ring, answer);
    return result;
}

static int begun(struct io_uring *ring, const char *how) {
    struct io_uring_params params = {0};
    return how[0] == 'p' ? io_uring_queue_init_params(8, ring, &params) : io_uring_queue_init(8, ring, 0);
}

int ring(const char *folder, const char *how) {
    struct io_uring ring;
    char bytes[64] = {0};
    if (chdir(folder)) return 1;
    int file = open("ring", O_RDWR | O_CREAT | O_TRUNC, 0644);
    for (int i = 0; i < 200; i++) {
        snprintf(bytes, sizeof bytes, "%08d", i);
        if (write(file, bytes, 8) != 8) return 1;
    }
    lseek(file, 160, SEEK_SET);
    int failed = begun(&ring, how);
    if (failed) {
        printf("skipped: %s\n", strerror(-failed));
        return 0;
    }
    /* At the offset of the descriptor. */
    memset(bytes, 0, sizeof bytes);
    io_uring_prep_read(io_uring_get_sqe(&ring), file, bytes, 8, -1);
    int got = done(&ring);
    printf("read %d %s, then at %ld\n", got, bytes, (long)lseek(file, 0, SEEK_CUR));
    io_uring_prep_write(io_uring_get_sqe(&ring), file, "written!", 8, -1);
    got = done(&ring);
    pread(file, bytes, 8, 168);
    printf("wrote %d %s, then at %ld\n", got, bytes, (long)lseek(file, 0, SEEK_CUR));
    /* The number becomes another file's. */
    io_uring_prep_close(io_uring_get_sqe(&ring), file);
    got = done(&ring);
    io_uring_prep_openat(io_uring_get_sqe(&ring), AT_FDCWD, "other", O_RDWR | O_CREAT | O_TRUNC, 0644);
    int other = done(&ring);
    printf("closed %d, the same number %d\n", got, other == file);
    if (write(other, "other", 5) != 5) return 1;
    int again = open("ring", O_RDONLY), others = open("other", O_RDONLY);
    char first[9] = {0}, second[9] = {0};
    if (read(again, first, 8) != 8) return 1;
    got = read(others, second, 8);
    printf("ring %s, other %d %s\n", first, got, second);
    return 0;
}

int main(int argc, char **argv) {
    return argc < 3 || ring(argv[1], argv[2]);
}
