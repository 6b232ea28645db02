package io.terrace;

/** The state that a write had reached when its call returned. */
public final class Receipt {
    private static final int OBJECT_AT = 1;
    private static final int GENERATION_AT = 2;
    private static final int OFFSET_AT = 3;
    private static final int BYTES_AT = 4;
    private static final int STORED_AT = 5;
    private static final int PENDING_AT = 6;
    private static final int PLANNED_AT = 7;
    private static final int REQUESTED_AT = 8;
    private static final int PRESENT_AT = 9;
    private static final int DURABLE_AT = 10;

    /** The numbers as the native library orders them. The first one is the id of the store. */
    final long[] numbers;

    Receipt(long[] numbers) {
        this.numbers = numbers;
    }

    /**
     * Returns the object's number. An object keeps it when it is renamed; one that replaces it has another.
     *
     * @return the number
     */
    public long object() {
        return numbers[OBJECT_AT];
    }

    /**
     * Returns the commit that made the write visible.
     *
     * @return the commit's sequence
     */
    public long generation() {
        return numbers[GENERATION_AT];
    }

    /**
     * Returns the position of the first byte in the object.
     *
     * @return the offset
     */
    public long offset() {
        return numbers[OFFSET_AT];
    }

    /**
     * Returns the number of bytes written, before encoding and replication.
     *
     * @return the number of bytes
     */
    public long bytes() {
        return numbers[BYTES_AT];
    }

    /**
     * Returns the size of the replicas that the call made.
     *
     * @return the number of bytes
     */
    public long storedBytes() {
        return numbers[STORED_AT];
    }

    /**
     * Returns the number of pending replicas, which the store makes in the background.
     *
     * @return the number of replicas, over all extents
     */
    public long pendingReplicas() {
        return numbers[PENDING_AT];
    }

    /**
     * Returns the planned number of replicas of each extent.
     *
     * @return the number of replicas
     */
    public int plannedReplicas() {
        return (int) numbers[PLANNED_AT];
    }

    /**
     * Returns the requested number of replicas, which is more than the planned one if there are too few failure domains.
     *
     * @return the number of replicas
     */
    public int requestedReplicas() {
        return (int) numbers[REQUESTED_AT];
    }

    /**
     * Returns the smallest number of replicas that an extent has.
     *
     * @return the number of replicas
     */
    public int presentReplicas() {
        return (int) numbers[PRESENT_AT];
    }

    /**
     * Returns whether the write survives a power cut, as {@link Ack#DURABLE} asks for.
     *
     * @return whether it does
     */
    public boolean isDurable() {
        return numbers[DURABLE_AT] != 0;
    }

    @Override
    public String toString() {
        return bytes() + " bytes, " + presentReplicas() + " of " + plannedReplicas() + " replicas, " + pendingReplicas() + " pending"
                + (isDurable() ? ", durable" : "");
    }
}
