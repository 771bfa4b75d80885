// Validates custom resources: a JSON array of objects on standard input, an array of error texts on standard output.
import { text } from "node:stream/consumers";

const packages = { "keda.sh": "keda", "monitoring.coreos.com": "prometheus-operator" };
const errors = [];
for (const object of JSON.parse(await text(process.stdin))) {
  const [group, version] = object.apiVersion.split("/");
  const path = `@kubernetes-models/${packages[group]}/${group}/${version}/${object.kind}`;
  const model = (await import(path))[object.kind];
  try {
    new model(object).validate();
  } catch (error) {
    errors.push(`${object.kind} ${object.metadata.name}: ${error.message}`);
  }
}
console.log(JSON.stringify(errors));
