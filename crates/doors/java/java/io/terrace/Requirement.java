package io.terrace;

import java.util.Locale;

/** A wish that decides replicas, acknowledgement and encodings. */
public enum Requirement {
    /** Reads start soon. */
    MIN_READ_LATENCY,
    /** Reads stream fast. */
    MAX_READ_BANDWIDTH,
    /** Reads outlive failures. */
    MAX_READ_AVAILABILITY,
    /** Writes outlive failures. */
    MAX_WRITE_AVAILABILITY,
    /** Acknowledged bytes are not lost. */
    MAX_DURABILITY,
    /** Targets are equally busy. */
    MAX_LOAD_BALANCE,
    /** Few joules are used. */
    MIN_ENERGY,
    /** Writes return soon. */
    MIN_WRITE_LATENCY,
    /** Writes stream fast. */
    MAX_WRITE_BANDWIDTH,
    /** Few bytes are stored. */
    MIN_STORAGE;

    /** Returns the name that the engine has for it. */
    String word() {
        return name().toLowerCase(Locale.ROOT);
    }
}
