// Passes arguments that are none, and uses one brain in several threads.

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <terrace_brain.h>

// The length of a block, the plans of each thread, and the reports of one outcome.
#ifndef BYTES
#define BYTES 65536
#define ROUNDS 20
#define REPORTS 20000
#endif

static terrace_brain *brain;
static unsigned char bytes[BYTES], out[BYTES], back[BYTES];

static void must(terrace_brain_status status) {
    if (status != TERRACE_BRAIN_STATUS_OK) {
        fprintf(stderr, "%d: %s\n", (int)status, terrace_brain_last_error());
        exit(1);
    }
}

static void expect(const char *what, terrace_brain_status status, terrace_brain_status wanted) {
    printf("%s: %d\n", what, status == wanted && *terrace_brain_last_error());
}

static void refused(const char *what, terrace_brain_status status) {
    expect(what, status, TERRACE_BRAIN_STATUS_INVALID);
}

static terrace_brain_target target(const char *tier) {
    terrace_brain_target target = {.tier = tier, .read = 1e8, .write = 1e8, .latency = 1e-3, .free = 1 << 30, .persistent = 1};
    return target;
}

static terrace_brain_status create(terrace_brain_target changed) {
    terrace_brain_target targets[2] = {target("a"), changed};
    terrace_brain *made;
    return terrace_brain_create(TERRACE_BRAIN_VERSION, targets, 2, &made);
}

static terrace_brain_status plan(terrace_brain_request request) {
    terrace_brain_piece pieces[16];
    return terrace_brain_plan(brain, &request, bytes, BYTES, pieces, 16, NULL, NULL);
}

static terrace_brain_outcome outcome(void) {
    terrace_brain_outcome outcome = {.key = "k", .length = BYTES, .stored = BYTES / 2, .codec_seconds = 1e-3, .target_seconds = 1e-3};
    return outcome;
}

static void targets_are_checked(void) {
    terrace_brain *made;
    terrace_brain_target one = target("a"), changed;
    refused("another version", terrace_brain_create(TERRACE_BRAIN_VERSION + 1, &one, 1, &made));
    refused("no targets", terrace_brain_create(TERRACE_BRAIN_VERSION, NULL, 0, &made));
    refused("null targets", terrace_brain_create(TERRACE_BRAIN_VERSION, NULL, 1, &made));
    refused("no array is as long", terrace_brain_create(TERRACE_BRAIN_VERSION, &one, (size_t)-1, &made));
    refused("no place", terrace_brain_create(TERRACE_BRAIN_VERSION, &one, 1, NULL));
    refused("no name", create(target(NULL)));
    refused("empty name", create(target("")));
    refused("name that is no text", create(target("\xff")));
    changed = target("b"), changed.read = 0;
    refused("no speed", create(changed));
    changed = target("b"), changed.write = NAN;
    refused("speed that is no number", create(changed));
    changed = target("b"), changed.latency = -1;
    refused("negative latency", create(changed));
    changed = target("b"), changed.watts = INFINITY;
    refused("endless power", create(changed));
    changed = target("a"), changed.persistent = 0;
    refused("a tier that differs in itself", create(changed));
    terrace_brain_target apart[3] = {target("a"), target("b"), target("a")};
    refused("a tier in two parts", terrace_brain_create(TERRACE_BRAIN_VERSION, apart, 3, &made));
}

static void requests_are_checked(void) {
    terrace_brain_piece piece;
    terrace_brain_plan_size size;
    refused("requirement", plan((terrace_brain_request){.requirements = "fast"}));
    refused("weights", plan((terrace_brain_request){.weights = "1,2"}));
    refused("ack", plan((terrace_brain_request){.ack = "soon"}));
    refused("budget", plan((terrace_brain_request){.budget = "3"}));
    refused("tiers", plan((terrace_brain_request){.tiers = "a+z"}));
    refused("element", plan((terrace_brain_request){.element = "f16"}));
    refused("key", plan((terrace_brain_request){.key = "\xff"}));
    refused("reads", plan((terrace_brain_request){.reads = -1}));
    refused("max_latency", plan((terrace_brain_request){.max_latency = NAN}));
    refused("many replicas", plan((terrace_brain_request){.replicas = 17}));
    refused("least above most", plan((terrace_brain_request){.min_replicas = 3, .max_replicas = 2}));
    refused("null bytes", terrace_brain_plan(brain, NULL, NULL, 5, &piece, 1, &size, NULL));
    refused("negative length", terrace_brain_plan(brain, NULL, bytes, (size_t)-1, &piece, 1, &size, NULL));
    refused("long bytes", terrace_brain_plan(brain, NULL, bytes, ((size_t)1 << 30) + 1, &piece, 1, &size, NULL));
    refused("null pieces", terrace_brain_plan(brain, NULL, bytes, BYTES, NULL, 1, &size, NULL));
    expect("short array", terrace_brain_plan(brain, NULL, bytes, BYTES, &piece, 0, &size, NULL), TERRACE_BRAIN_STATUS_TOO_SHORT);
    printf("its length: %zu\n", size.pieces);
    must(terrace_brain_plan(brain, NULL, bytes, 0, &piece, 1, &size, NULL));
    printf("pieces of nothing: %zu\n", size.pieces);
    terrace_brain_request slow = {.max_latency = 1e-9};
    char *json = NULL;
    expect("no target is as quick", terrace_brain_plan(brain, &slow, bytes, BYTES, &piece, 1, &size, &json), TERRACE_BRAIN_STATUS_NO_SPACE);
    printf("with reasons: %d\n", json && strstr(json, "forbidden") != NULL);
    terrace_brain_free(json);
    terrace_brain_free(NULL);
}

static void outcomes_are_checked(void) {
    terrace_brain_outcome changed;
    refused("no outcome", terrace_brain_report(brain, NULL));
    changed = outcome(), changed.target = 9;
    refused("no such target", terrace_brain_report(brain, &changed));
    changed = outcome(), changed.encoding = 0xffffffff;
    refused("no such encoding", terrace_brain_report(brain, &changed));
    changed = outcome(), changed.codec_seconds = -1;
    refused("negative time", terrace_brain_report(brain, &changed));
    changed = outcome(), changed.stored = (uint64_t)-1;
    refused("endless bytes", terrace_brain_report(brain, &changed));
    changed = outcome(), changed.target_seconds = 1e-300;
    for (int i = 0; i < REPORTS; i++) must(terrace_brain_report(brain, &changed));
    must(plan((terrace_brain_request){.key = "k"}));
    refused("no target to update", terrace_brain_update(brain, 2, 0, 0, 1));
    refused("load that is none", terrace_brain_update(brain, 0, 0, NAN, 1));
    must(terrace_brain_update(brain, 0, (uint64_t)-1, 0, 1));
    must(terrace_brain_update(brain, 1, (uint64_t)-1, 1e300, 1));
    must(plan((terrace_brain_request){.key = "k", .requirements = "max_load_balance"}));
}

static void bytes_are_checked(void) {
    uint32_t encoding = 0xffffffff, none = 0;
    size_t made;
    refused("unknown encoding", terrace_brain_encode(&encoding, bytes, BYTES, out, BYTES, &made));
    refused("null encoding", terrace_brain_encode(NULL, bytes, BYTES, out, BYTES, &made));
    refused("null length", terrace_brain_encode(&none, bytes, BYTES, out, BYTES, NULL));
    refused("null room", terrace_brain_encode(&none, bytes, BYTES, NULL, BYTES, &made));
    expect("no room", terrace_brain_encode(&none, bytes, BYTES, out, 5, &made), TERRACE_BRAIN_STATUS_TOO_SHORT);
    refused("unknown decoding", terrace_brain_decode(0xffffffff, out, 5, back, BYTES));
    expect("fewer bytes than were encoded", terrace_brain_decode(0, out, 5, back, BYTES), TERRACE_BRAIN_STATUS_DAMAGED);

    size_t length = 0;
    expect("no room to save", terrace_brain_save(brain, NULL, 0, &length), TERRACE_BRAIN_STATUS_TOO_SHORT);
    unsigned char *saved = malloc(length);
    must(terrace_brain_save(brain, saved, length, &length));
    must(terrace_brain_load(brain, saved, length));
    expect("nothing to load", terrace_brain_load(brain, NULL, 0), TERRACE_BRAIN_STATUS_DAMAGED);
    expect("a part to load", terrace_brain_load(brain, saved, length / 2), TERRACE_BRAIN_STATUS_DAMAGED);
    saved[length / 2] ^= 1;
    expect("a change to load", terrace_brain_load(brain, saved, length), TERRACE_BRAIN_STATUS_DAMAGED);
    expect("other bytes to load", terrace_brain_load(brain, bytes, BYTES), TERRACE_BRAIN_STATUS_DAMAGED);
    free(saved);
}

// Plans, encodes, decodes and reports, while other threads do the same.
static void *work(void *number) {
    unsigned char *encoded = malloc(BYTES), *decoded = malloc(BYTES);
    char key[32];
    snprintf(key, sizeof key, "thread.%c", 'a' + *(int *)number % 2);
    for (int i = 0; i < ROUNDS; i++) {
        terrace_brain_request request = {.key = key, .offset = (uint64_t)i * BYTES, .weights = i % 2 ? "archival" : NULL};
        terrace_brain_piece piece;
        size_t stored;
        must(terrace_brain_plan(brain, &request, bytes, BYTES, &piece, 1, NULL, NULL));
        uint32_t encoding = piece.encoding;
        must(terrace_brain_encode(&encoding, bytes, BYTES, encoded, BYTES, &stored));
        must(terrace_brain_decode(encoding, encoded, stored, decoded, BYTES));
        if (memcmp(bytes, decoded, BYTES)) exit(2);
        terrace_brain_outcome made = {.key = key, .target = piece.target, .encoding = piece.encoding, .length = BYTES, .stored = stored};
        must(terrace_brain_report(brain, &made));
    }
    free(encoded);
    free(decoded);
    return NULL;
}

static void threads_share_a_brain(void) {
    pthread_t threads[4];
    int numbers[4] = {0, 1, 2, 3};
    for (int i = 0; i < 4; i++) pthread_create(&threads[i], NULL, work, &numbers[i]);
    for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
    printf("threads: 1\n");
}

static void handles_are_checked(void) {
    char *json;
    must(terrace_brain_close(brain));
    refused("closed twice", terrace_brain_close(brain));
    refused("used after that", plan((terrace_brain_request){.key = "k"}));
    refused("described after that", terrace_brain_describe(brain, &json));
    refused("garbage handle", terrace_brain_save((terrace_brain *)out, out, BYTES, NULL));
    refused("null handle", terrace_brain_update(NULL, 0, 0, 0, 1));
}

int main(void) {
    printf("no error yet: %d\n", !*terrace_brain_last_error());
    for (size_t i = 0; i < BYTES; i++) bytes[i] = (unsigned char)(i / 7 % 50);
    terrace_brain_target targets[2] = {target("a"), target("b")};
    must(terrace_brain_create(TERRACE_BRAIN_VERSION, targets, 2, &brain));
    targets_are_checked();
    requests_are_checked();
    bytes_are_checked();
    threads_share_a_brain();
    outcomes_are_checked();
    refused("nowhere to describe", terrace_brain_describe(brain, NULL));
    handles_are_checked();
    return 0;
}
