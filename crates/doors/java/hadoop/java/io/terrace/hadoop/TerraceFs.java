package io.terrace.hadoop;

import java.io.IOException;
import java.net.URI;
import java.net.URISyntaxException;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.DelegateToFileSystem;

/** The same file system for programs that use {@code FileContext}: {@code fs.AbstractFileSystem.terrace.impl} names this class. */
public final class TerraceFs extends DelegateToFileSystem {
    private static final int NO_PORT = -1;

    /**
     * Makes the file system, as Hadoop does.
     *
     * @param name its URI
     * @param configuration the configuration
     * @throws IOException if the store cannot be opened
     * @throws URISyntaxException if the URI is wrong
     */
    public TerraceFs(URI name, Configuration configuration) throws IOException, URISyntaxException {
        super(name, new TerraceFileSystem(), configuration, TerraceFileSystem.URI_SCHEME, false);
    }

    @Override
    public int getUriDefaultPort() {
        return NO_PORT;
    }
}
