import java.io.File;
import java.io.FileOutputStream;
import java.io.OutputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hdfs.MiniDFSCluster;
import org.apache.hadoop.yarn.conf.YarnConfiguration;
import org.apache.hadoop.yarn.server.MiniYARNCluster;

/** HDFS and YARN in one process: name node, data node, resource manager, node manager.
 *
 * Arguments: a directory, the port of the name node, that of its page. Configuration for clients is written to the
 * directory "conf", then the file "ready".
 */
public class HadoopMain {
  private static final String[] FOR_CLIENTS = {
    "yarn.resourcemanager.", "yarn.nodemanager.", "yarn.scheduler.", "yarn.log"
  };

  public static void main(String[] arguments) throws Exception {
    String base = arguments[0];
    for (String name : new String[] {"test.build.data", "test.build.dir", "test.cache.data", "hadoop.log.dir"}) {
      File directory = new File(base, name);
      directory.mkdirs();
      System.setProperty(name, directory.getPath());
    }
    Configuration settings = new YarnConfiguration();
    settings.set("hadoop.tmp.dir", base + "/tmp");
    settings.set(MiniDFSCluster.HDFS_MINIDFS_BASEDIR, base + "/dfs");
    settings.set("dfs.replication", "1");
    settings.set("dfs.permissions.enabled", "false");
    settings.set("dfs.namenode.safemode.extension", "0");
    String user = System.getProperty("user.name");
    settings.set("hadoop.proxyuser." + user + ".hosts", "*");
    settings.set("hadoop.proxyuser." + user + ".groups", "*");
    MiniDFSCluster files = new MiniDFSCluster.Builder(settings).numDataNodes(1)
        .nameNodePort(Integer.parseInt(arguments[1])).nameNodeHttpPort(Integer.parseInt(arguments[2])).format(true).build();
    files.waitActive();
    Configuration clients = new Configuration(settings);
    clients.set("fs.defaultFS", files.getFileSystem().getUri().toString());

    YarnConfiguration nodes = new YarnConfiguration(clients);
    nodes.setInt("yarn.nodemanager.resource.memory-mb", 6144);
    nodes.setInt("yarn.minicluster.yarn.nodemanager.resource.memory-mb", 6144);
    nodes.setInt("yarn.nodemanager.resource.cpu-vcores", 4);
    nodes.setInt("yarn.scheduler.minimum-allocation-mb", 128);
    nodes.setInt("yarn.scheduler.maximum-allocation-mb", 6144);
    nodes.setInt("yarn.resourcemanager.am.max-attempts", 4);
    nodes.setBoolean("yarn.nodemanager.vmem-check-enabled", false);
    nodes.setBoolean("yarn.nodemanager.pmem-check-enabled", false);
    nodes.setBoolean("yarn.nodemanager.disk-health-checker.enable", false);
    nodes.set("yarn.nodemanager.delete.debug-delay-sec", "600");
    nodes.set("yarn.resourcemanager.scheduler.class",
        "org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity.CapacityScheduler");
    nodes.set("yarn.scheduler.capacity.root.queues", "default");
    nodes.set("yarn.scheduler.capacity.root.default.capacity", "100");
    nodes.set("yarn.scheduler.capacity.maximum-am-resource-percent", "0.9");
    nodes.set("yarn.nodemanager.env-whitelist", "JAVA_HOME,PATH,HOME,LANG");
    MiniYARNCluster yarn = new MiniYARNCluster("yarn", 1, 1, 1);
    yarn.init(nodes);
    yarn.start();
    yarn.waitForNodeManagersToConnect(30_000);
    for (Map.Entry<String, String> entry : yarn.getConfig()) {
      for (String prefix : FOR_CLIENTS) {
        if (entry.getKey().startsWith(prefix)) {
          clients.set(entry.getKey(), yarn.getConfig().get(entry.getKey()));
        }
      }
    }
    clients.unset("net.topology.node.switch.mapping.impl"); // a class of tests, which clients do not have
    Path conf = Path.of(base, "conf");
    Files.createDirectories(conf);
    for (String name : new String[] {"core-site.xml", "hdfs-site.xml", "yarn-site.xml"}) {
      try (OutputStream stream = new FileOutputStream(conf.resolve(name).toFile())) {
        clients.writeXml(stream);
      }
    }
    Files.writeString(Path.of(base, "ready"), "ready");
    Thread.currentThread().join();
  }
}
