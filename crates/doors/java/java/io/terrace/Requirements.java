package io.terrace;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;

/**
 * The requirements of a store or a call. Each method returns these requirements with one more; nothing changes.
 *
 * <pre>{@code
 * Requirements careful = Requirements.NONE.replicas(2).ack(Ack.DURABLE).require(Requirement.MIN_STORAGE);
 * }</pre>
 *
 * <p>The requirements of a call win over those with which the store was opened. Those that are left open come from the store's rules. A value
 * that is not understood is refused with an {@link IllegalArgumentException} by the call that uses it.
 */
public final class Requirements {
    /** No requirements: the store's rules decide. */
    public static final Requirements NONE = new Requirements(List.of());

    private final List<String> settings;

    private Requirements(List<String> settings) {
        this.settings = settings;
    }

    private Requirements with(String name, Object value) {
        List<String> more = new ArrayList<>(settings);
        more.add(name + "=" + Objects.requireNonNull(value, name));
        return new Requirements(List.copyOf(more));
    }

    /**
     * Asks for something. Of two requirements that conflict, the first one applies.
     *
     * @param requirement the wish
     * @return these requirements and that
     */
    public Requirements require(Requirement requirement) {
        return with(requirement.word(), true);
    }

    /**
     * Asks for something, with this number of replicas.
     *
     * @param requirement the wish
     * @param replicas the number of replicas
     * @return these requirements and that
     */
    public Requirements require(Requirement requirement, int replicas) {
        return with(requirement.word(), replicas);
    }

    /**
     * Sets the number of replicas.
     *
     * @param replicas the number, at least 1
     * @return these requirements and that
     */
    public Requirements replicas(int replicas) {
        return with("replicas", replicas);
    }

    /**
     * Sets the state that a write waits for.
     *
     * @param ack the state
     * @return these requirements and that
     */
    public Requirements ack(Ack ack) {
        return with("ack", ack.word());
    }

    /**
     * Sets the weights for choosing encodings by the name of a preset.
     *
     * @param preset {@code asynchronous}, {@code archival} or {@code read-after-write}
     * @return these requirements and that
     */
    public Requirements weights(String preset) {
        return with("weights", preset);
    }

    /**
     * Sets the weights for choosing encodings.
     *
     * @param compress the weight of the time to compress
     * @param decompress the weight of the time to decompress
     * @param ratio the weight of the compression ratio
     * @return these requirements and that
     */
    public Requirements weights(double compress, double decompress, double ratio) {
        return with("weights", compress + "," + decompress + "," + ratio);
    }

    /**
     * Limits the bytes that are stored for each byte given, over all replicas.
     *
     * @param budget a factor such as {@code 3x}
     * @return these requirements and that
     */
    public Requirements budget(String budget) {
        return with("budget", budget);
    }

    /**
     * Limits the latency of the target that holds the first replica.
     *
     * @param most the highest latency
     * @return these requirements and that
     */
    public Requirements maxLatency(Duration most) {
        return with("max_latency", most.toNanos() / 1e9);
    }

    /**
     * Names the only tiers to use.
     *
     * @param names the tiers' names
     * @return these requirements and that
     */
    public Requirements tiers(String... names) {
        Requirements named = this;
        for (String name : names) {
            named = named.with("tier", name);
        }
        return named;
    }

    /**
     * Tells the type of the bytes' elements, which helps to encode them.
     *
     * @param name a type such as {@code f64}
     * @return these requirements and that
     */
    public Requirements element(String name) {
        return with("element", name);
    }

    /**
     * Makes a put fail with {@link TerraceException.Conflict} if the key exists.
     *
     * @return these requirements and that
     */
    public Requirements createNew() {
        return with("create_new", true);
    }

    /** Returns the settings as the engine reads them. */
    String[] settings() {
        return settings.toArray(new String[0]);
    }

    @Override
    public String toString() {
        return "Requirements" + settings;
    }
}
