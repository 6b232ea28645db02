package io.terrace;

import java.nio.ByteBuffer;

/** The calls of the native library for an open file. Bytes are those of a direct buffer, or of an array if the buffer is null. */
final class NativeFile {
    /** Its store is not closed while this object is in use. */
    final Native store;

    NativeFile(Native store) {
        this.store = store;
    }

    native int read(long store, long file, long start, ByteBuffer buffer, byte[] array, int offset, int length)
            throws TerraceException;

    native void write(long store, long file, long start, ByteBuffer buffer, byte[] array, int offset, int length)
            throws TerraceException;

    native void append(long store, long file, ByteBuffer buffer, byte[] array, int offset, int length)
            throws TerraceException;

    native long length(long store, long file) throws TerraceException;

    native void setLength(long store, long file, long length) throws TerraceException;

    native void flush(long store, long file) throws TerraceException;

    native void sync(long store, long file) throws TerraceException;

    native void close(long store, long file) throws TerraceException;
}
