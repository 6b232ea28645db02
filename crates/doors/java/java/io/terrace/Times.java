package io.terrace;

import java.time.Instant;

/** Converts times to nanoseconds since 1970 and back. */
final class Times {
    private static final long NANOS_PER_SECOND = 1_000_000_000;

    private Times() {}

    static Instant instant(long nanos) {
        return Instant.ofEpochSecond(Math.floorDiv(nanos, NANOS_PER_SECOND), Math.floorMod(nanos, NANOS_PER_SECOND));
    }

    static long nanos(Instant time) {
        return Math.addExact(Math.multiplyExact(time.getEpochSecond(), NANOS_PER_SECOND), time.getNano());
    }
}
