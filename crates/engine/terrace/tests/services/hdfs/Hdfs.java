import java.io.File;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.hdfs.HdfsConfiguration;
import org.apache.hadoop.hdfs.server.datanode.DataNode;
import org.apache.hadoop.hdfs.server.namenode.NameNode;
import org.apache.hadoop.metrics2.lib.DefaultMetricsSystem;
import org.apache.hadoop.security.UserGroupInformation;

/**
 * HDFS on loopback: a NameNode and a DataNode in one process, which runs until it is killed. Started again, it has the
 * files that it had.
 *
 * <p>Arguments: the folder for everything, the port of the NameNode's WebHDFS, and the superuser's name.
 */
public class Hdfs {
    public static void main(String[] args) {
        try {
            run(new File(args[0]), args[1], args[2]);
        } catch (Throwable error) {
            // Hadoop's threads would keep the process alive.
            error.printStackTrace();
            System.exit(1);
        }
    }

    private static void run(File folder, String port, String user) throws Exception {
        // As for Hadoop's own tests: metrics of two servers in one process bear the same names.
        DefaultMetricsSystem.setMiniClusterMode(true);
        UserGroupInformation.setLoginUser(UserGroupInformation.createRemoteUser(user));
        File names = new File(folder, "names");
        Configuration conf = new HdfsConfiguration();
        conf.set("fs.defaultFS", "hdfs://127.0.0.1:0");
        conf.set("dfs.namenode.http-address", "127.0.0.1:" + port);
        for (String server : new String[] {"address", "http.address", "ipc.address"}) {
            conf.set("dfs.datanode." + server, "127.0.0.1:0");
        }
        // Clients are redirected there, and need not resolve this machine's name.
        conf.set("dfs.datanode.hostname", "127.0.0.1");
        conf.set("dfs.namenode.name.dir", names.toURI().toString());
        conf.set("dfs.datanode.data.dir", new File(folder, "data").toURI().toString());
        conf.setInt("dfs.replication", 1);
        // Files may be written as soon as the DataNode has told what it has.
        conf.setInt("dfs.namenode.safemode.extension", 0);
        // So that longer listings have several pages.
        conf.setInt("dfs.ls.limit", 10);
        if (!names.exists()) {
            NameNode.format(conf);
        }
        NameNode nameNode = NameNode.createNameNode(new String[0], conf);
        FileSystem.setDefaultUri(conf, "hdfs://127.0.0.1:" + nameNode.getNameNodeAddress().getPort());
        DataNode.createDataNode(new String[0], conf);
        while (nameNode.isInSafeMode() || nameNode.getNamesystem().getNumLiveDataNodes() == 0) {
            Thread.sleep(20);
        }
        System.out.println("HDFS takes writes");
        nameNode.join();
    }
}
