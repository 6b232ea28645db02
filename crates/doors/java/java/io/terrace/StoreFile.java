package io.terrace;

import java.nio.ByteBuffer;
import java.nio.ReadOnlyBufferException;

/**
 * An open file of a store. Many threads may use it at once. Bytes that are written are buffered for at most five seconds: {@link #flush} and
 * {@link #close} place them on tiers, {@link #sync} makes them durable. They are lost if the process is killed before.
 *
 * <p>A call on a closed file, or on one of a closed store, throws an {@link IllegalStateException}. A file that the program loses is closed with
 * its store.
 */
public final class StoreFile implements AutoCloseable {
    private final NativeFile calls;
    private final long store;
    private final long number;

    StoreFile(Native calls, long store, long number) {
        this.calls = new NativeFile(calls);
        this.store = store;
        this.number = number;
    }

    /**
     * Reads bytes into a buffer, until it has none remaining or the file ends.
     *
     * @param offset the position of the first byte
     * @param into the buffer
     * @return the number of bytes read; 0 at the file's end
     * @throws TerraceException if it fails
     */
    public int read(long offset, ByteBuffer into) throws TerraceException {
        if (into.isReadOnly()) {
            throw new ReadOnlyBufferException();
        }
        Piece piece = Piece.of(into);
        int count = calls.read(store, number, offset, piece.buffer, piece.array, piece.offset, piece.length);
        into.position(into.position() + count);
        return count;
    }

    /**
     * Writes the remaining bytes of a buffer, and lengthens the file if they go beyond its end.
     *
     * @param offset the position of the first byte
     * @param bytes the bytes
     * @throws TerraceException if it fails
     */
    public void write(long offset, ByteBuffer bytes) throws TerraceException {
        Piece piece = Piece.toRead(bytes);
        calls.write(store, number, offset, piece.buffer, piece.array, piece.offset, piece.length);
        bytes.position(bytes.limit());
    }

    /**
     * Writes the remaining bytes of a buffer at the file's end, wherever that is when they reach the store: others may append, too.
     *
     * @param bytes the bytes
     * @throws TerraceException if it fails
     */
    public void append(ByteBuffer bytes) throws TerraceException {
        Piece piece = Piece.toRead(bytes);
        calls.append(store, number, piece.buffer, piece.array, piece.offset, piece.length);
        bytes.position(bytes.limit());
    }

    /**
     * Returns the length.
     *
     * @return the number of bytes
     * @throws TerraceException if it fails
     */
    public long length() throws TerraceException {
        return calls.length(store, number);
    }

    /**
     * Cuts the file, or lengthens it by zeros that take no space.
     *
     * @param length the new length
     * @throws TerraceException if it fails
     */
    public void setLength(long length) throws TerraceException {
        calls.setLength(store, number, length);
    }

    /**
     * Places the buffered bytes on tiers. All other processes see them then.
     *
     * @throws TerraceException if it fails
     */
    public void flush() throws TerraceException {
        calls.flush(store, number);
    }

    /**
     * Makes the file durable.
     *
     * @throws TerraceException if it fails
     */
    public void sync() throws TerraceException {
        calls.sync(store, number);
    }

    /**
     * Flushes and closes the file. Closing it twice does nothing.
     *
     * @throws TerraceException if bytes cannot be placed; the file is closed nevertheless
     */
    @Override
    public void close() throws TerraceException {
        calls.close(store, number);
    }
}
