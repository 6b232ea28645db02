package io.terrace;

import java.io.ByteArrayOutputStream;
import java.nio.ByteBuffer;
import java.nio.CharBuffer;
import java.nio.charset.CharsetDecoder;
import java.nio.charset.CoderResult;
import java.nio.charset.CodingErrorAction;
import java.nio.charset.StandardCharsets;

/** Converts keys, which are bytes, to strings and back. A byte that is not UTF-8 becomes a lone surrogate, as in Python. */
final class Keys {
    /** The surrogate for a byte is this plus the byte. */
    private static final int ESCAPE_BASE = 0xDC00;

    private Keys() {}

    static byte[] encode(String key) {
        ByteArrayOutputStream bytes = new ByteArrayOutputStream(key.length());
        for (int at = 0; at < key.length(); ) {
            int point = key.codePointAt(at);
            at += Character.charCount(point);
            if (point >= ESCAPE_BASE + 0x80 && point <= ESCAPE_BASE + 0xFF) {
                bytes.write(point - ESCAPE_BASE);
            } else if (point >= Character.MIN_SURROGATE && point <= Character.MAX_SURROGATE) {
                throw new IllegalArgumentException("the key has half a character in it: \\u" + Integer.toHexString(point));
            } else if (point < 0x80) {
                bytes.write(point);
            } else {
                bytes.writeBytes(Character.toString(point).getBytes(StandardCharsets.UTF_8));
            }
        }
        return bytes.toByteArray();
    }

    static String decode(byte[] key) {
        CharsetDecoder decoder = StandardCharsets.UTF_8.newDecoder();
        decoder.onMalformedInput(CodingErrorAction.REPORT);
        ByteBuffer in = ByteBuffer.wrap(key);
        CharBuffer out = CharBuffer.allocate(key.length);
        while (true) {
            CoderResult result = decoder.decode(in, out, true);
            if (result.isUnderflow()) {
                return out.flip().toString();
            }
            for (int left = result.length(); left > 0; left--) {
                out.put((char) (ESCAPE_BASE + (in.get() & 0xFF)));
            }
            decoder.reset();
        }
    }
}
