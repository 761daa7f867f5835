/* Work cut into parts for a team of threads that is awake already.

   Comes in: how a team is called (OpenMP's GOMP_parallel, of the library that the process computes
   with), a function of a first and a last thing, and what the function is given. Goes out: the
   function called for all things. It does not know what it does. */

#include <stdint.h>

typedef void (*Team)(void (*)(void *), void *, unsigned, unsigned);
typedef void (*Run)(const void *given, int64_t first, int64_t last);

typedef struct {
    Run run;
    const void *given;
    int64_t count, share, next;
} Work;

/* What each thread does: the next part that nobody has, until there is none. */
static void take(void *of) {
    Work *work = of;
    for (;;) {
        int64_t first = __atomic_fetch_add(&work->next, work->share, __ATOMIC_RELAXED);
        if (first >= work->count) return;
        int64_t left = work->count - first;
        work->run(work->given, first, first + (left < work->share ? left : work->share));
    }
}

void pellucid_in_parts(Team team, unsigned threads, Run run, const void *given, int64_t count,
                       int64_t share) {
    Work work = {run, given, count, share, 0};
    team(take, &work, threads, 0);
}
