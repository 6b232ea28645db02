import java.io.IOException;
import java.net.URI;
import java.util.List;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.contract.AbstractContractAppendTest;
import org.apache.hadoop.fs.contract.AbstractContractBulkDeleteTest;
import org.apache.hadoop.fs.contract.AbstractContractContentSummaryTest;
import org.apache.hadoop.fs.contract.AbstractContractCopyFromLocalTest;
import org.apache.hadoop.fs.contract.AbstractContractCreateTest;
import org.apache.hadoop.fs.contract.AbstractContractDeleteTest;
import org.apache.hadoop.fs.contract.AbstractContractGetFileStatusTest;
import org.apache.hadoop.fs.contract.AbstractContractMkdirTest;
import org.apache.hadoop.fs.contract.AbstractContractOpenTest;
import org.apache.hadoop.fs.contract.AbstractContractRenameTest;
import org.apache.hadoop.fs.contract.AbstractContractRootDirectoryTest;
import org.apache.hadoop.fs.contract.AbstractContractSeekTest;
import org.apache.hadoop.fs.contract.AbstractContractSetTimesTest;
import org.apache.hadoop.fs.contract.AbstractContractVectoredReadTest;
import org.apache.hadoop.fs.contract.AbstractFSContract;
import org.junit.Test;

/**
 * Hadoop's tests of what each of its file systems promises, on the store that the environment names.
 *
 * <p>Eight of its 22 classes are left out, since they test only what a store does not have: Etag, LeaseRecovery, SafeMode, StreamIOStatistics,
 * Unbuffer, PathHandle, Concat and MultipartUploader, which needs Concat.
 */
final class Contract extends AbstractFSContract {
    private static final List<String> TRUE_OPTIONS = List.of(
            "is-case-sensitive",
            "rejects-seek-past-eof",
            "rename-returns-false-if-dest-exists",
            "rename-returns-false-if-source-missing",
            "supports-append",
            "supports-atomic-rename",
            "supports-available-on-zero-byte-file",
            "supports-content-check",
            "supports-getfilestatus",
            "supports-hflush",
            "supports-hsync",
            "supports-seek",
            "supports-settimes",
            "supports-strict-exceptions",
            "supports-unix-permissions",
            "metadata_updated_on_hsync",
            "test.root-tests-enabled");

    Contract(Configuration configuration) {
        super(configuration);
        for (String option : TRUE_OPTIONS) {
            configuration.setBoolean(getConfKey(option), true);
        }
    }

    @Override
    public FileSystem getTestFileSystem() throws IOException {
        return FileSystem.get(URI.create("terrace:///"), getConf());
    }

    @Override
    public String getScheme() {
        return "terrace";
    }

    @Override
    public Path getTestPath() {
        return new Path("/contract");
    }

    public static class AppendTest extends AbstractContractAppendTest {
        @Override
        protected AbstractFSContract createContract(Configuration configuration) {
            return new Contract(configuration);
        }
    }

    public static class BulkDeleteTest extends AbstractContractBulkDeleteTest {
        @Override
        protected AbstractFSContract createContract(Configuration configuration) {
            return new Contract(configuration);
        }

        /** As in S3A's tests: a page of 1 is only for file systems that delete one path at a time. */
        @Test
        @Override
        public void validatePageSize() throws Exception {
            assertEquals(1000, getFileSystem().createBulkDelete(getContract().getTestPath()).pageSize());
        }
    }

    public static class ContentSummaryTest extends AbstractContractContentSummaryTest {
        @Override
        protected AbstractFSContract createContract(Configuration configuration) {
            return new Contract(configuration);
        }
    }

    public static class CopyFromLocalTest extends AbstractContractCopyFromLocalTest {
        @Override
        protected AbstractFSContract createContract(Configuration configuration) {
            return new Contract(configuration);
        }
    }

    public static class CreateTest extends AbstractContractCreateTest {
        @Override
        protected AbstractFSContract createContract(Configuration configuration) {
            return new Contract(configuration);
        }
    }

    public static class DeleteTest extends AbstractContractDeleteTest {
        @Override
        protected AbstractFSContract createContract(Configuration configuration) {
            return new Contract(configuration);
        }
    }

    public static class GetFileStatusTest extends AbstractContractGetFileStatusTest {
        @Override
        protected AbstractFSContract createContract(Configuration configuration) {
            return new Contract(configuration);
        }
    }

    public static class MkdirTest extends AbstractContractMkdirTest {
        @Override
        protected AbstractFSContract createContract(Configuration configuration) {
            return new Contract(configuration);
        }
    }

    public static class OpenTest extends AbstractContractOpenTest {
        @Override
        protected AbstractFSContract createContract(Configuration configuration) {
            return new Contract(configuration);
        }
    }

    public static class RenameTest extends AbstractContractRenameTest {
        @Override
        protected AbstractFSContract createContract(Configuration configuration) {
            return new Contract(configuration);
        }
    }

    public static class RootDirectoryTest extends AbstractContractRootDirectoryTest {
        @Override
        protected AbstractFSContract createContract(Configuration configuration) {
            return new Contract(configuration);
        }
    }

    public static class SeekTest extends AbstractContractSeekTest {
        @Override
        protected AbstractFSContract createContract(Configuration configuration) {
            return new Contract(configuration);
        }
    }

    public static class SetTimesTest extends AbstractContractSetTimesTest {
        @Override
        protected AbstractFSContract createContract(Configuration configuration) {
            return new Contract(configuration);
        }
    }

    public static class VectoredReadTest extends AbstractContractVectoredReadTest {
        public VectoredReadTest(String bufferKind) {
            super(bufferKind);
        }

        @Override
        protected AbstractFSContract createContract(Configuration configuration) {
            return new Contract(configuration);
        }
    }
}
