package io.terrace;

import java.time.Instant;

/** The description of an object. */
public final class StoredObject {
    private static final int NUMBER_AT = 0;
    private static final int GENERATION_AT = 1;
    private static final int LENGTH_AT = 2;
    private static final int REPLICAS_AT = 3;
    private static final int KIND_AT = 4;
    private static final int MODE_AT = 5;
    private static final int MODIFIED_AT = 6;

    private final String key;
    private final long[] numbers;

    StoredObject(String key, long[] numbers) {
        this.key = key;
        this.numbers = numbers;
    }

    /** The kind of an object. */
    public enum Kind {
        /** Bytes. */
        FILE,
        /** A directory that was made, also if nothing is in it. */
        DIRECTORY,
        /** A symbolic link, whose bytes are the path that it points to. */
        SYMLINK
    }

    /**
     * Returns the key. A byte of it that is not UTF-8 is a lone surrogate, which all calls understand.
     *
     * @return the key
     */
    public String key() {
        return key;
    }

    /**
     * Returns the object's number. An object keeps it when it is renamed; one that replaces it has another.
     *
     * @return the number
     */
    public long number() {
        return numbers[NUMBER_AT];
    }

    /**
     * Returns the commit that changed the object last.
     *
     * @return the commit's sequence
     */
    public long generation() {
        return numbers[GENERATION_AT];
    }

    /**
     * Returns the length.
     *
     * @return the number of bytes
     */
    public long length() {
        return numbers[LENGTH_AT];
    }

    /**
     * Returns how many replicas each extent should have.
     *
     * @return the number of replicas
     */
    public int replicas() {
        return (int) numbers[REPLICAS_AT];
    }

    /**
     * Returns the kind.
     *
     * @return the kind
     */
    public Kind kind() {
        return Kind.values()[(int) numbers[KIND_AT]];
    }

    /**
     * Returns the permission bits.
     *
     * @return the bits, such as {@code 0644}
     */
    public int mode() {
        return (int) numbers[MODE_AT];
    }

    /**
     * Returns the time of the last modification.
     *
     * @return the time
     */
    public Instant modified() {
        return Times.instant(numbers[MODIFIED_AT]);
    }

    @Override
    public String toString() {
        return key + ": " + length() + " bytes, " + replicas() + " replicas";
    }
}
