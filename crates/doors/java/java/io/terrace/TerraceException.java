package io.terrace;

import java.io.IOException;

/** Any failure of a store. The message says what failed, where, and what to do next. */
public class TerraceException extends IOException {
    private static final long serialVersionUID = 1;

    TerraceException(String message) {
        super(message);
    }

    /** No object has this key. */
    public static final class NotFound extends TerraceException {
        private static final long serialVersionUID = 1;

        NotFound(String message) {
            super(message);
        }
    }

    /** The key is not allowed. */
    public static final class BadKey extends TerraceException {
        private static final long serialVersionUID = 1;

        BadKey(String message) {
            super(message);
        }
    }

    /** The object is not in the state that the call needs. */
    public static class Conflict extends TerraceException {
        private static final long serialVersionUID = 1;

        Conflict(String message) {
            super(message);
        }
    }

    /** The object was replaced while it was read; read it again. */
    public static final class Replaced extends Conflict {
        private static final long serialVersionUID = 1;

        Replaced(String message) {
            super(message);
        }
    }

    /** All replicas of requested bytes are damaged or unreachable. */
    public static final class Unreadable extends TerraceException {
        private static final long serialVersionUID = 1;

        Unreadable(String message) {
            super(message);
        }
    }

    /** An offset or a length exceeds the maximum size of an object, or of an array of Java. */
    public static final class TooLarge extends TerraceException {
        private static final long serialVersionUID = 1;

        TooLarge(String message) {
            super(message);
        }
    }

    /** No tier has room for the bytes. */
    public static final class NoSpace extends TerraceException {
        private static final long serialVersionUID = 1;

        NoSpace(String message) {
            super(message);
        }
    }

    /** Replicas are still pending when the time limit is reached. */
    public static final class StillPending extends TerraceException {
        private static final long serialVersionUID = 1;

        StillPending(String message) {
            super(message);
        }
    }

    /** The configuration is not valid. */
    public static final class BadConfiguration extends TerraceException {
        private static final long serialVersionUID = 1;

        BadConfiguration(String message) {
            super(message);
        }
    }

    /** The directory contains no store, or a store that cannot be opened. */
    public static final class BadStore extends TerraceException {
        private static final long serialVersionUID = 1;

        BadStore(String message) {
            super(message);
        }
    }

    /** The catalog or the log failed, or is damaged. */
    public static final class BadCatalog extends TerraceException {
        private static final long serialVersionUID = 1;

        BadCatalog(String message) {
            super(message);
        }
    }

    /** Something has this path already. */
    public static final class Exists extends TerraceException {
        private static final long serialVersionUID = 1;

        Exists(String message) {
            super(message);
        }
    }

    /** A directory is needed, and something else has this path. */
    public static final class NotDirectory extends TerraceException {
        private static final long serialVersionUID = 1;

        NotDirectory(String message) {
            super(message);
        }
    }

    /** The call is not possible on a directory. */
    public static final class IsDirectory extends TerraceException {
        private static final long serialVersionUID = 1;

        IsDirectory(String message) {
            super(message);
        }
    }

    /** A directory that is not empty is neither removed nor replaced. */
    public static final class NotEmpty extends TerraceException {
        private static final long serialVersionUID = 1;

        NotEmpty(String message) {
            super(message);
        }
    }
}
