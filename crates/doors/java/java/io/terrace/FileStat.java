package io.terrace;

import java.time.Instant;

/** The attributes of a file, a directory or a symbolic link. */
public final class FileStat {
    private static final int KIND_AT = 0;
    private static final int LENGTH_AT = 1;
    private static final int MODE_AT = 2;
    private static final int USER_AT = 3;
    private static final int GROUP_AT = 4;
    private static final int MODIFIED_AT = 5;
    private static final int ACCESSED_AT = 6;

    private final String name;
    private final long[] numbers;

    FileStat(String name, long[] numbers) {
        this.name = name;
        this.numbers = numbers;
    }

    /**
     * Returns the name.
     *
     * @return the last component of the path; empty for the root
     */
    public String name() {
        return name;
    }

    /**
     * Returns the kind.
     *
     * @return the kind
     */
    public StoredObject.Kind kind() {
        return StoredObject.Kind.values()[(int) numbers[KIND_AT]];
    }

    /**
     * Returns whether it is a directory.
     *
     * @return whether it is one
     */
    public boolean isDirectory() {
        return kind() == StoredObject.Kind.DIRECTORY;
    }

    /**
     * Returns the length.
     *
     * @return the number of bytes; 0 for a directory
     */
    public long length() {
        return numbers[LENGTH_AT];
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
     * Returns the owner.
     *
     * @return the number of the user
     */
    public int user() {
        return (int) numbers[USER_AT];
    }

    /**
     * Returns the owner's group.
     *
     * @return the number of the group
     */
    public int group() {
        return (int) numbers[GROUP_AT];
    }

    /**
     * Returns when the bytes were last changed.
     *
     * @return the time
     */
    public Instant modified() {
        return Times.instant(numbers[MODIFIED_AT]);
    }

    /**
     * Returns when a program last set the time of reading; reading does not change it.
     *
     * @return the time; that of the last change if no program has set it
     */
    public Instant accessed() {
        return Times.instant(numbers[ACCESSED_AT]);
    }

    @Override
    public String toString() {
        return name + ": " + kind() + ", " + length() + " bytes";
    }
}
