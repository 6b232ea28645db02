package io.terrace;

import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;

/** Finds the native library: in the file that a property names, in the jar, or where Java looks for libraries. */
final class NativeLibrary {
    private static final String LIBRARY_PROPERTY = "io.terrace.library";

    private NativeLibrary() {}

    static void load() {
        String named = System.getProperty(LIBRARY_PROPERTY);
        if (named != null) {
            System.load(Path.of(named).toAbsolutePath().toString());
            return;
        }
        String inside = System.getProperty("os.name") + "-" + System.getProperty("os.arch") + "/libterrace_java.so";
        try (InputStream library = NativeLibrary.class.getResourceAsStream(inside)) {
            if (library == null) {
                System.loadLibrary("terrace_java");
                return;
            }
            Path copy = Files.createTempFile("terrace", ".so");
            try {
                Files.copy(library, copy, StandardCopyOption.REPLACE_EXISTING);
                System.load(copy.toString());
            } finally {
                // The library stays loaded without its name.
                Files.delete(copy);
            }
        } catch (IOException error) {
            throw new UncheckedIOException(
                    "copying the native library to " + System.getProperty("java.io.tmpdir") + "; -D" + LIBRARY_PROPERTY
                            + "=FILE loads it from a file instead",
                    error);
        }
    }
}
