/* A process that waits in the way that its first argument names. Prints NAME=TID lines, then "ready". */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static pthread_mutex_t one = PTHREAD_MUTEX_INITIALIZER, two = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t in_data = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP; /* not zero: lies in .data, a file mapping */
static pthread_mutex_t special;
static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
static pthread_barrier_t both;
static sem_t sem;
static pthread_t joined;
static const char *path;

static volatile int started, said;
static void say(const char *name) {
    printf("%s=%ld\n", name, (long)syscall(SYS_gettid));
    fflush(stdout);
    __sync_fetch_and_add(&said, 1);
}
static void *lock_one_two(void *_) { say("a"); pthread_mutex_lock(&one); pthread_barrier_wait(&both); pthread_mutex_lock(&two); return 0; }
static void *lock_two_one(void *_) { say("b"); pthread_mutex_lock(&two); pthread_barrier_wait(&both); pthread_mutex_lock(&one); return 0; }
static void *lock_twice(void *_) { say("waiter"); pthread_mutex_lock(&one); pthread_mutex_lock(&one); return 0; }
static void *lock_data(void *_) { say("waiter"); pthread_mutex_lock(&in_data); return 0; }
static void *lock_special(void *_) { say("waiter"); pthread_mutex_lock(&special); return 0; }
static void *reader(void *_) { say("reader"); pthread_rwlock_rdlock(&rwlock); return 0; }
static void *writer(void *_) { say("writer"); pthread_rwlock_wrlock(&rwlock); return 0; }
static void *sleeper(void *_) { say("sleeper"); for (;;) sleep(1000); return 0; }
static void *joiner(void *_) { say("waiter"); pthread_join(joined, 0); return 0; }
static void *cond_waiter(void *_) { say("waiter"); pthread_mutex_lock(&one); pthread_cond_wait(&cond, &one); return 0; }
static void *sem_waiter(void *_) { say("waiter"); sem_wait(&sem); return 0; }
static void *timed(void *_) {
    struct timespec until;
    say("waiter");
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 500;
    pthread_mutex_timedlock(&one, &until);
    return 0;
}
static void *nap(void *_) {
    struct timespec until;
    say("waiter");
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += 700;
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, 0);
    return 0;
}
static void *latch(void *_) { /* waits for the value 2 as a mutex does, beside words that look like a thread and one user */
    static uint32_t words[8] = {2, 0, 0, 1, 0x1234};
    say("waiter");
    words[2] = (uint32_t)syscall(SYS_gettid);
    syscall(SYS_futex, words, FUTEX_WAIT_PRIVATE, 2, 0, 0, 0);
    return 0;
}
static void *poller(void *_) {
    struct pollfd fds[2] = {{.fd = 0, .events = POLLPRI}, {.fd = 2, .events = POLLPRI}};
    say("waiter");
    poll(fds, 2, 900000);
    return 0;
}
static void *selector(void *_) {
    fd_set wanted;
    FD_ZERO(&wanted);
    FD_SET(0, &wanted);
    say("waiter");
    select(1, 0, 0, &wanted, 0);
    return 0;
}
static void *opener(void *_) { say("waiter"); open(strdup(path), O_WRONLY); return 0; }
static void *pipe_filler(void *_) {
    int ends[2];
    static char page[4096];
    say("waiter");
    if (pipe(ends)) return 0;
    for (;;) if (write(ends[1], page, sizeof page) < 0) return 0;
}
static void start(void *(*what)(void *)) { pthread_t thread; started++; pthread_create(&thread, 0, what, 0); }
static void special_mutex(int robust, int protocol, int type) {
    pthread_mutexattr_t kind;
    pthread_mutexattr_init(&kind);
    pthread_mutexattr_settype(&kind, type);
    if (robust) pthread_mutexattr_setrobust(&kind, PTHREAD_MUTEX_ROBUST);
    if (protocol) pthread_mutexattr_setprotocol(&kind, PTHREAD_PRIO_INHERIT);
    pthread_mutex_init(&special, &kind);
    pthread_mutex_lock(&special);
    start(lock_special);
}

int main(int argc, char **argv) {
    const char *mode = argv[1];
    path = argc > 2 ? argv[2] : "";
    say("main");
    pthread_barrier_init(&both, 0, 2);
    if (!strcmp(mode, "abba")) { start(lock_one_two); start(lock_two_one); }
    else if (!strcmp(mode, "self")) start(lock_twice);
    else if (!strcmp(mode, "data")) { pthread_mutex_lock(&in_data); start(lock_data); }
    else if (!strcmp(mode, "recursive")) special_mutex(0, 0, PTHREAD_MUTEX_RECURSIVE);
    else if (!strcmp(mode, "errorcheck")) special_mutex(0, 0, PTHREAD_MUTEX_ERRORCHECK);
    else if (!strcmp(mode, "robust")) special_mutex(1, 0, PTHREAD_MUTEX_NORMAL);
    else if (!strcmp(mode, "pi")) special_mutex(0, 1, PTHREAD_MUTEX_NORMAL);
    else if (!strcmp(mode, "rwlock")) { pthread_rwlock_wrlock(&rwlock); start(reader); start(writer); }
    else if (!strcmp(mode, "rwlock-read")) { pthread_rwlock_rdlock(&rwlock); start(writer); }
    else if (!strcmp(mode, "join")) { started++; pthread_create(&joined, 0, sleeper, 0); start(joiner); }
    else if (!strcmp(mode, "cond")) start(cond_waiter);
    else if (!strcmp(mode, "sem")) start(sem_waiter);
    else if (!strcmp(mode, "timed")) { pthread_mutex_lock(&one); start(timed); }
    else if (!strcmp(mode, "nap")) start(nap);
    else if (!strcmp(mode, "latch")) start(latch);
    else if (!strcmp(mode, "poll")) start(poller);
    else if (!strcmp(mode, "select")) start(selector);
    else if (!strcmp(mode, "open")) start(opener);
    else if (!strcmp(mode, "pipe")) start(pipe_filler);
    else if (!strcmp(mode, "forked")) {
        pthread_mutex_lock(&one);
        pid_t child = fork();
        if (child == 0) { pthread_mutex_lock(&one); return 0; }
        printf("child=%d\n", (int)child);
    } else if (!strcmp(mode, "shared")) { /* one mutex in memory that parent and child share */
        pthread_mutex_t *mutex = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        pthread_mutexattr_t kind;
        pthread_mutexattr_init(&kind);
        pthread_mutexattr_setpshared(&kind, PTHREAD_PROCESS_SHARED);
        pthread_mutex_init(mutex + 1, &kind);
        pthread_mutex_lock(mutex + 1);
        pid_t child = fork();
        if (child == 0) { pthread_mutex_lock(mutex + 1); return 0; }
        printf("child=%d\n", (int)child);
        start(nap); /* something of the parent's own to look at */
    } else if (!strcmp(mode, "zombie")) {
        pid_t child = fork();
        if (child == 0) _exit(7);
        printf("child=%d\n", (int)child);
    } else if (!strcmp(mode, "vfork")) {
        /* the child of the vfork must stay in front of its exec: it opens a FIFO that nobody writes */
        puts("ready"); fflush(stdout);
        if (vfork() == 0) { open(path, O_RDONLY); _exit(0); }
    }
    while (said < started + 1) usleep(1000); /* every thread has said its number */
    puts("ready"); fflush(stdout);
    for (;;) pause();
}
