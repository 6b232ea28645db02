package io.terrace.hadoop;

import java.io.IOException;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import org.apache.hadoop.fs.BulkDelete;
import org.apache.hadoop.fs.BulkDeleteUtils;
import org.apache.hadoop.fs.Path;

/** Deletes many files and empty directories below a path. Each deletion is a commit of its own. */
final class TerraceBulkDelete implements BulkDelete {
    /** As many as an object store takes at once, so that programs do not ask for more elsewhere. */
    private static final int PAGE_PATHS = 1000;

    private final TerraceFileSystem system;
    private final Path base;

    TerraceBulkDelete(TerraceFileSystem system, Path base) {
        this.system = system;
        this.base = base;
    }

    @Override
    public int pageSize() {
        return PAGE_PATHS;
    }

    @Override
    public Path basePath() {
        return base;
    }

    /** Returns the paths that are still there, each with the reason. A path that does not exist counts as deleted. */
    @Override
    public List<Map.Entry<Path, String>> bulkDelete(Collection<Path> paths) {
        // The base has a scheme, and paths may have none. A relative one is refused.
        List<Path> qualified = new ArrayList<>();
        for (Path path : paths) {
            qualified.add(path.isAbsolute() ? system.makeQualified(path) : path);
        }
        BulkDeleteUtils.validateBulkDeletePaths(qualified, PAGE_PATHS, base);
        List<Path> deepestFirst = new ArrayList<>(paths);
        deepestFirst.sort(Comparator.comparingInt(Path::depth).reversed());
        List<Map.Entry<Path, String>> left = new ArrayList<>();
        for (Path path : deepestFirst) {
            try {
                system.delete(path, false);
            } catch (IOException error) {
                left.add(Map.entry(path, error.toString()));
            }
        }
        return left;
    }

    @Override
    public void close() {}
}
