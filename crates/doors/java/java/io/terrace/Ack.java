package io.terrace;

import java.util.Locale;

/** The state that a write waits for. */
public enum Ack {
    /** One replica is written: the bytes survive the crash of every process. */
    PLACED,
    /** All replicas are written: the bytes also survive the loss of all failure domains but one. */
    REPLICATED,
    /** A replica on a persistent target is synced: the bytes also survive a power cut. */
    DURABLE;

    /** Returns the name that the engine has for it. */
    String word() {
        return name().toLowerCase(Locale.ROOT);
    }
}
