package io.terrace;

import java.nio.ByteBuffer;

/**
 * The calls of the native library. Bytes are those of a direct buffer, or of an array if the buffer is null.
 *
 * <p>Each open store has an object of this class, whose end the cleaner waits for. Most methods are not static, since their object is in use until
 * they return: a store is not closed during its last call.
 */
final class Native {
    static {
        NativeLibrary.load();
    }

    Native() {}

    static native void init(byte[] directory, byte[] configuration) throws TerraceException;

    static native long open(byte[] directory, String[] settings) throws TerraceException;

    native void close(long store) throws TerraceException;

    static native void abandon(long store) throws TerraceException;

    native long[] put(
            long store, byte[] key, ByteBuffer buffer, byte[] array, int offset, int length, String[] settings)
            throws TerraceException;

    native long[] writeAt(
            long store,
            byte[] key,
            long start,
            ByteBuffer buffer,
            byte[] array,
            int offset,
            int length,
            String[] settings)
            throws TerraceException;

    native long[] append(
            long store, byte[] key, ByteBuffer buffer, byte[] array, int offset, int length, String[] settings)
            throws TerraceException;

    native byte[] get(long store, byte[] key, long start, long end) throws TerraceException;

    native int read(
            long store, byte[] key, long start, ByteBuffer buffer, byte[] array, int offset, int length)
            throws TerraceException;

    native long[] stat(long store, byte[] key) throws TerraceException;

    native Object[] list(long store, byte[] prefix, byte[] after, int limit) throws TerraceException;

    native void remove(long store, byte[] key) throws TerraceException;

    native void rename(long store, byte[] from, byte[] to) throws TerraceException;

    native void copy(long store, byte[] from, byte[] to) throws TerraceException;

    native long[] awaitLevel(long store, long[] receipt, String level) throws TerraceException;

    native void sync(long store) throws TerraceException;

    native String locate(long store, byte[] key) throws TerraceException;
}
