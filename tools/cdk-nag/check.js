// Checks templates with cdk-nag and prints each finding as a line of JSON: template, rule, resource and problem. It
// exits with 0, with and without findings.
'use strict';

const fs = require('fs');
const os = require('os');
const path = require('path');
const { App, DefaultStackSynthesizer, Stack, Validations } = require('aws-cdk-lib');
const { CfnInclude } = require('aws-cdk-lib/cloudformation-include');
const { AwsSolutionsChecks, ServerlessChecks } = require('cdk-nag');

const outdir = fs.mkdtempSync(path.join(os.tmpdir(), 'cdk-nag-'));
try {
  check(process.argv.slice(2));
} finally {
  fs.rmSync(outdir, { recursive: true });
}

// check makes a stack from each template. A finding makes the synthesis fail, and the report lists all findings.
function check(templates) {
  const app = new App({
    outdir, analyticsReporting: false, treeMetadata: false, context: { 'aws:cdk:disable-stack-trace': true },
  });
  for (const templateFile of templates) {
    const synthesizer = new DefaultStackSynthesizer({ generateBootstrapVersionRule: false }); // the template has it
    const stack = new Stack(app, path.basename(templateFile, '.template.json'), { synthesizer });
    new CfnInclude(stack, 'Template', { templateFile });
  }
  Validations.of(app).addPlugins(new AwsSolutionsChecks(app), new ServerlessChecks(app));
  const report = path.join(outdir, 'validation-report.json');
  try {
    app.synth();
  } catch (error) {
    if (!fs.existsSync(report)) {
      throw error;
    }
  }
  for (const plugin of JSON.parse(fs.readFileSync(report)).pluginReports) {
    for (const { ruleName, description, violatingConstructs } of plugin.violations) {
      for (const { constructPath } of violatingConstructs) {
        const [template, , resource] = constructPath.split('/');
        console.log(JSON.stringify({ template, rule: ruleName, resource, description }));
      }
    }
  }
}
