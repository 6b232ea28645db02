package io.terrace;

import java.lang.ref.Cleaner;
import java.nio.ByteBuffer;
import java.nio.ReadOnlyBufferException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;

/**
 * An open store. Many threads and processes may use one store at once.
 *
 * <p>A direct buffer is read and filled in place; the bytes of other buffers and of arrays are copied once. Nothing may change the bytes, or
 * use those that are read into, until the call returns. A call takes what a buffer has remaining, and moves its position.
 *
 * <p>A call on a closed store throws an {@link IllegalStateException}. Interrupting a thread does not end a call.
 */
public final class Store implements AutoCloseable {
    private static final Cleaner STORE_CLEANER = Cleaner.create();
    private static final long NO_END = -1;

    private final Path directory;
    private final long number;
    private final Native calls = new Native();
    private final Cleaner.Cleanable cleanable;

    private Store(Path directory, long number) {
        this.directory = directory;
        this.number = number;
        this.cleanable = STORE_CLEANER.register(calls, new Abandoned(directory, number));
    }

    /** Closes a store that the program has lost; it must not refer to the store. */
    private static final class Abandoned implements Runnable {
        private final Path directory;
        private final long number;

        Abandoned(Path directory, long number) {
            this.directory = directory;
            this.number = number;
        }

        @Override
        public void run() {
            try {
                Native.abandon(number);
            } catch (TerraceException error) {
                System.getLogger("io.terrace").log(System.Logger.Level.WARNING, "closing " + directory, error);
            }
        }
    }

    private static byte[] pathBytes(Path path) {
        return path.toString().getBytes(StandardCharsets.UTF_8);
    }

    /**
     * Makes a store with the tiers that this machine has.
     *
     * @param directory the store's directory
     * @throws TerraceException if there is a store already, or it cannot be made
     */
    public static void init(Path directory) throws TerraceException {
        Native.init(pathBytes(directory), null);
    }

    /**
     * Makes a store with the tiers of a configuration.
     *
     * @param directory the store's directory
     * @param configuration the file with the configuration
     * @throws TerraceException if there is a store already, or it cannot be made
     */
    public static void init(Path directory, Path configuration) throws TerraceException {
        Native.init(pathBytes(directory), pathBytes(configuration));
    }

    /**
     * Opens a store.
     *
     * @param directory the store's directory
     * @return the store
     * @throws TerraceException if it cannot be opened
     */
    public static Store open(Path directory) throws TerraceException {
        return open(directory, Requirements.NONE);
    }

    /**
     * Opens a store with requirements that apply to every call on it.
     *
     * @param directory the store's directory
     * @param application the requirements
     * @return the store
     * @throws TerraceException if it cannot be opened
     */
    public static Store open(Path directory, Requirements application) throws TerraceException {
        return new Store(directory, Native.open(pathBytes(directory), application.settings()));
    }

    /**
     * Returns the store's directory.
     *
     * @return the directory, as it was given
     */
    public Path directory() {
        return directory;
    }

    /**
     * Writes a whole object, and replaces an earlier object of the key atomically.
     *
     * @param key the key
     * @param bytes the bytes
     * @return the state that the write has reached
     * @throws TerraceException if it fails; an earlier object is unchanged then
     */
    public Receipt put(String key, byte[] bytes) throws TerraceException {
        return put(key, ByteBuffer.wrap(bytes), Requirements.NONE);
    }

    /**
     * Writes a whole object, and replaces an earlier object of the key atomically.
     *
     * @param key the key
     * @param bytes the bytes
     * @param operation the requirements of this call
     * @return the state that the write has reached
     * @throws TerraceException if it fails; an earlier object is unchanged then
     */
    public Receipt put(String key, ByteBuffer bytes, Requirements operation) throws TerraceException {
        Piece piece = Piece.toRead(bytes);
        long[] receipt = calls.put(
                number, Keys.encode(key), piece.buffer, piece.array, piece.offset, piece.length, operation.settings());
        bytes.position(bytes.limit());
        return new Receipt(receipt);
    }

    /**
     * Writes a range of an object, which is created if it does not exist. Other ranges stay unchanged, even while others write them.
     *
     * @param key the key
     * @param offset the position of the first byte
     * @param bytes the bytes
     * @return the state that the write has reached
     * @throws TerraceException if it fails
     */
    public Receipt writeAt(String key, long offset, byte[] bytes) throws TerraceException {
        return writeAt(key, offset, ByteBuffer.wrap(bytes), Requirements.NONE);
    }

    /**
     * Writes a range of an object, which is created if it does not exist. Other ranges stay unchanged, even while others write them.
     *
     * @param key the key
     * @param offset the position of the first byte
     * @param bytes the bytes
     * @param operation the requirements of this call
     * @return the state that the write has reached
     * @throws TerraceException if it fails
     */
    public Receipt writeAt(String key, long offset, ByteBuffer bytes, Requirements operation) throws TerraceException {
        Piece piece = Piece.toRead(bytes);
        long[] receipt = calls.writeAt(
                number,
                Keys.encode(key),
                offset,
                piece.buffer,
                piece.array,
                piece.offset,
                piece.length,
                operation.settings());
        bytes.position(bytes.limit());
        return new Receipt(receipt);
    }

    /**
     * Appends bytes to an object, which is created if it does not exist. Threads and processes may append to one object at once: no bytes
     * are lost, and the bytes of a call stay together.
     *
     * @param key the key
     * @param bytes the bytes
     * @return the state that the write has reached; its offset is the position of the first byte
     * @throws TerraceException if it fails
     */
    public Receipt append(String key, byte[] bytes) throws TerraceException {
        return append(key, ByteBuffer.wrap(bytes), Requirements.NONE);
    }

    /**
     * Appends bytes to an object, which is created if it does not exist. Threads and processes may append to one object at once: no bytes
     * are lost, and the bytes of a call stay together.
     *
     * @param key the key
     * @param bytes the bytes
     * @param operation the requirements of this call
     * @return the state that the write has reached; its offset is the position of the first byte
     * @throws TerraceException if it fails
     */
    public Receipt append(String key, ByteBuffer bytes, Requirements operation) throws TerraceException {
        Piece piece = Piece.toRead(bytes);
        long[] receipt = calls.append(
                number, Keys.encode(key), piece.buffer, piece.array, piece.offset, piece.length, operation.settings());
        bytes.position(bytes.limit());
        return new Receipt(receipt);
    }

    /**
     * Reads a whole object.
     *
     * @param key the key
     * @return its bytes
     * @throws TerraceException if it fails, or the object is longer than an array
     */
    public byte[] get(String key) throws TerraceException {
        return calls.get(number, Keys.encode(key), 0, NO_END);
    }

    /**
     * Reads a range of an object. All bytes are of one version of it.
     *
     * @param key the key
     * @param start the position of the first byte
     * @param end the position behind the last byte; a later one than the object's end stands for that
     * @return the bytes
     * @throws TerraceException if it fails, or the range is longer than an array
     */
    public byte[] get(String key, long start, long end) throws TerraceException {
        if (end < 0) {
            throw new IllegalArgumentException("the end: " + end + " is negative");
        }
        return calls.get(number, Keys.encode(key), start, end);
    }

    /**
     * Reads bytes of an object into a buffer, until it has none remaining or the object ends. All bytes are of one version of it.
     *
     * @param key the key
     * @param offset the position of the first byte in the object
     * @param into the buffer
     * @return the number of bytes read; 0 at the object's end
     * @throws TerraceException if it fails
     */
    public int read(String key, long offset, ByteBuffer into) throws TerraceException {
        if (into.isReadOnly()) {
            throw new ReadOnlyBufferException();
        }
        Piece piece = Piece.of(into);
        int count = calls.read(
                number, Keys.encode(key), offset, piece.buffer, piece.array, piece.offset, piece.length);
        into.position(into.position() + count);
        return count;
    }

    /**
     * Describes an object.
     *
     * @param key the key
     * @return the description
     * @throws TerraceException.NotFound if no object has the key
     * @throws TerraceException if it fails
     */
    public StoredObject stat(String key) throws TerraceException {
        return new StoredObject(key, calls.stat(number, Keys.encode(key)));
    }

    /**
     * Describes an object, if there is one.
     *
     * @param key the key
     * @return the description; empty if no object has the key
     * @throws TerraceException if it fails
     */
    public Optional<StoredObject> find(String key) throws TerraceException {
        try {
            return Optional.of(stat(key));
        } catch (TerraceException.NotFound none) {
            return Optional.empty();
        }
    }

    /**
     * Lists a page of the objects whose key is a prefix or lies below it, in the order of the keys' bytes. The last key of a page is where the
     * next one begins. The store's own objects are left out unless the prefix names them.
     *
     * @param prefix the prefix; empty for all objects
     * @param after the key after which the page begins; null for the first page
     * @param limit the most objects of a page
     * @return the objects; fewer than the limit only at the end
     * @throws TerraceException if it fails
     */
    public List<StoredObject> list(String prefix, String after, int limit) throws TerraceException {
        byte[] afterBytes = after == null ? null : Keys.encode(after);
        Object[] found = calls.list(number, Keys.encode(prefix), afterBytes, limit);
        List<StoredObject> objects = new ArrayList<>(found.length / 2);
        for (int at = 0; at < found.length; at += 2) {
            objects.add(new StoredObject(Keys.decode((byte[]) found[at]), (long[]) found[at + 1]));
        }
        return objects;
    }

    /**
     * Removes an object.
     *
     * @param key the key
     * @throws TerraceException.NotFound if no object has the key
     * @throws TerraceException if it fails
     */
    public void remove(String key) throws TerraceException {
        calls.remove(number, Keys.encode(key));
    }

    /**
     * Renames an object, and replaces one that has the new key. No bytes move.
     *
     * @param from the key
     * @param to the new key
     * @throws TerraceException if it fails
     */
    public void rename(String from, String to) throws TerraceException {
        calls.rename(number, Keys.encode(from), Keys.encode(to));
    }

    /**
     * Gives an object a copy under a second key, and replaces an earlier object of that key. The two share their stored bytes until one of
     * them changes.
     *
     * @param from the key
     * @param to the key of the copy
     * @throws TerraceException if it fails
     */
    public void copy(String from, String to) throws TerraceException {
        calls.copy(number, Keys.encode(from), Keys.encode(to));
    }

    /**
     * Waits until a write has reached a state.
     *
     * @param receipt the receipt of the write, from a call on a store of this directory
     * @param ack the state
     * @return the state that it has reached then
     * @throws TerraceException if it fails, or takes too long
     */
    public Receipt await(Receipt receipt, Ack ack) throws TerraceException {
        return new Receipt(calls.awaitLevel(number, receipt.numbers, ack.word()));
    }

    /**
     * Waits until no replica is pending and everything is durable.
     *
     * @throws TerraceException if it fails
     */
    public void sync() throws TerraceException {
        calls.sync(number);
    }

    /**
     * Tells where an object's bytes are.
     *
     * @param key the key
     * @return the JSON that {@code terrace locate --json} prints
     * @throws TerraceException if it fails
     */
    public String locate(String key) throws TerraceException {
        return calls.locate(number, Keys.encode(key));
    }

    /**
     * Returns the store's objects as files.
     *
     * @return the files; they are closed with the store
     */
    public StoreFiles files() {
        return new StoreFiles(calls, number);
    }

    /**
     * Waits at most a minute until no replica is pending and everything is durable, and then closes the store in any case. Closing a store
     * twice does nothing. A store that is not closed before it becomes unreachable is closed without the wait.
     *
     * @throws TerraceException if replicas are still pending, or bytes cannot be made durable
     */
    @Override
    public void close() throws TerraceException {
        try {
            calls.close(number);
        } finally {
            cleanable.clean();
        }
    }

    @Override
    public String toString() {
        return "Store[" + directory + "]";
    }
}
