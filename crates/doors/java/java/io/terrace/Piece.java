package io.terrace;

import java.nio.ByteBuffer;

/** The remaining bytes of a buffer, in the form that native calls take. */
final class Piece {
    /** The buffer, if it is direct; otherwise null. */
    final ByteBuffer buffer;

    /** The array behind the buffer, if it is not direct; otherwise null. */
    final byte[] array;

    final int offset;
    final int length;

    private Piece(ByteBuffer buffer, byte[] array, int offset, int length) {
        this.buffer = buffer;
        this.array = array;
        this.offset = offset;
        this.length = length;
    }

    static Piece of(ByteBuffer bytes) {
        return bytes.isDirect()
                ? new Piece(bytes, null, bytes.position(), bytes.remaining())
                : new Piece(null, bytes.array(), bytes.arrayOffset() + bytes.position(), bytes.remaining());
    }

    /** Of a buffer that hides its array, since it is read-only, there is a copy. */
    static Piece toRead(ByteBuffer bytes) {
        if (bytes.isDirect() || bytes.hasArray()) {
            return of(bytes);
        }
        byte[] copy = new byte[bytes.remaining()];
        bytes.duplicate().get(copy);
        return new Piece(null, copy, 0, copy.length);
    }
}
